"""A tokenizer.json for checkpoints that were published without one."""

import json
import warnings
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from txexport.checkpoint import read_json
from txexport.errors import CheckpointError, UnsupportedError

TOKENIZER = "tokenizer.json"
UNIGRAM = 1  # of a model's types
NORMAL, KINDS = 1, {1, 2, 3, 5}  # of pieces' types: normal, unknown, control, unused
NOWHERE = "\0"  # begins what no text holds, since every normalizer of SentencePiece leaves it out
SPECIAL = ("</s>", "<unk>", "<pad>")
# Of WordPiece, byte-level BPE, and SentencePiece; without any, transformers makes a tokenizer of no words.
VOCABULARIES = (
    {"vocab.txt"},
    {"vocab.json", "merges.txt"},
    {"spiece.model"},
    {"sentencepiece.bpe.model"},
    {"tokenizer.model"},
)

# What is read of a SentencePiece model (its sentencepiece_model.proto); the rest is skipped.
FIELDS = {
    "Piece": [("piece", 1, "STRING"), ("score", 2, "FLOAT"), ("type", 3, "INT32")],
    "Trainer": [("model_type", 3, "INT32")],
    "Normalizer": [
        ("precompiled_charsmap", 2, "BYTES"),
        ("add_dummy_prefix", 3, "BOOL"),
        ("remove_extra_whitespaces", 4, "BOOL"),
    ],
    "Model": [("pieces", 1, "Piece"), ("trainer", 2, "Trainer"), ("normalizer", 3, "Normalizer")],
}
DEFAULTS = {"type": "1", "model_type": "1", "add_dummy_prefix": "true", "remove_extra_whitespaces": "true"}


def tokenizer_json(folder: Path) -> str | None:
    """What tokenizer.json would hold, made of a checkpoint's other files; None where that cannot be.

    Marian's SentencePiece model and vocabulary are read here; what other checkpoints have, by transformers
    where it is installed. Raises CheckpointError for files that cannot be read.
    """
    try:
        if (folder / "source.spm").is_file() and (folder / "vocab.json").is_file():
            return marian(folder).to_str()
    except UnsupportedError as error:
        warnings.warn(str(error), stacklevel=2)
        return None
    named = {path.name for path in folder.iterdir()}
    return _by_transformers(folder) if any(files <= named for files in VOCABULARIES) else None


def marian(folder: Path) -> Tokenizer:
    """The tokenizer of source.spm and vocab.json: it reads the source language, and writes both.

    Of ways to cut a text that are equally likely, as of one letter many times, it may take another than the
    original. Three more things differ. A piece that vocab.json lacks is not used, where the original reads
    it as unknown; a warning says how many there are. A code of a language, as in ">>fra<< A cat.", is one
    token wherever it stands. And an accent of its own after a compatibility letter, as in a ligature with an
    acute, is lost (`tokenizers` replaces both together). Raises CheckpointError, and UnsupportedError for
    what does not go into one tokenizer.
    """
    settings = folder / "tokenizer_config.json"
    if settings.is_file() and read_json(settings).get("separate_vocabs"):
        raise UnsupportedError(f"{folder}: two vocabularies do not go into one tokenizer.json")
    file, words = folder / "source.spm", _words(folder / "vocab.json")
    model = _read(file)
    kinds = {piece.type for piece in model.pieces}
    if model.trainer.model_type != UNIGRAM or not kinds <= KINDS:
        raise UnsupportedError(f"{file} is no plain unigram model, so no tokenizer.json was made of it")
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    lacking = len(scores.keys() - words.keys())
    if lacking:
        said = f"{lacking} pieces of {file} are not in vocab.json, and texts are cut without them"
        warnings.warn(said, stacklevel=2)

    def spelt(word: str) -> str:
        read = word in scores or word in SPECIAL or _is_code(word) or len(word) == 1
        return word if read else NOWHERE + word

    least = min(scores.values())
    vocabulary = [(spelt(word), scores.get(word, least)) for word in words]
    tokenizer = Tokenizer(models.Unigram(vocabulary, words["<unk>"], byte_fallback=False))
    tokenizer.normalizer = _normalizer(model.normalizer, set("".join(scores)))
    scheme = "always" if model.normalizer.add_dummy_prefix else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    pieces = [decoders.Replace(NOWHERE, ""), decoders.Metaspace(prepend_scheme=scheme)]
    ends = decoders.Replace(Regex("^ +| +$"), "")
    tokenizer.decoder = decoders.Sequence([*pieces, decoders.Fuse(), ends])
    tokenizer.post_processor = processors.TemplateProcessing(
        "$A </s>", "$A $B </s>", [("</s>", words["</s>"])]
    )
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words if _is_code(word)])
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in SPECIAL])
    return tokenizer


def _words(file: Path) -> dict[str, int]:
    """Words by number, from 0. Raises CheckpointError."""
    words = read_json(file)
    if not set(SPECIAL) <= set(words):
        raise CheckpointError(f"{file} has no numbers of {', '.join(SPECIAL)}")
    if set(words.values()) != set(range(len(words))):
        raise CheckpointError(f"{file} does not number its {len(words)} words from 0")
    return dict(sorted(words.items(), key=lambda item: item[1]))


def _is_code(word: str) -> bool:
    return word.startswith(">>") and word.endswith("<<")


def _normalizer(spec, letters: set[str]) -> normalizers.Normalizer:
    """SentencePiece's own; and letters that no piece has are one unknown word where several stand together.

    One that stands alone may be a word of vocab.json, where the original looks it up.
    """
    steps: list = [normalizers.Precompiled(spec.precompiled_charsmap)] if spec.precompiled_charsmap else []
    known = "".join(f"\\x{{{ord(letter):x}}}" for letter in sorted(letters | {" "}))
    steps.append(normalizers.Replace(Regex(f"[^{known}]{{2,}}"), NOWHERE))
    if spec.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    return normalizers.Sequence(steps)


def _read(file: Path):
    """A SentencePiece model. Raises CheckpointError."""
    kinds = [{"name": name, "field": [_field(*field) for field in fields]} for name, fields in FIELDS.items()]
    described = json_format.ParseDict(
        {"name": "pieces.proto", "syntax": "proto2", "messageType": kinds},
        descriptor_pb2.FileDescriptorProto(),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    model: Message = message_factory.GetMessageClass(pool.FindMessageTypeByName("Model"))()
    try:
        model.ParseFromString(file.read_bytes())
    except DecodeError:
        raise CheckpointError(f"{file} is no SentencePiece model; copy it again") from None
    return model


def _field(name: str, number: int, kind: str) -> dict:
    nested = kind in FIELDS
    found: dict = {
        "name": name,
        "number": number,
        "label": "LABEL_REPEATED" if name == "pieces" else "LABEL_OPTIONAL",
        "type": "TYPE_MESSAGE" if nested else f"TYPE_{kind}",
    }
    if nested:
        found["typeName"] = kind
    if name in DEFAULTS:
        found["defaultValue"] = DEFAULTS[name]
    return found


def _by_transformers(folder: Path) -> str | None:
    """What transformers makes of the folder's files; None without it, or for a tokenizer of Python alone."""
    try:
        from transformers import AutoTokenizer

        with warnings.catch_warnings(action="ignore"):
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (ImportError, OSError, ValueError, KeyError, json.JSONDecodeError):
        return None
    return tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else None
