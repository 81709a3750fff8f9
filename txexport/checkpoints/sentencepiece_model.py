"""SentencePiece models, and the ids that a vocab.json assigns to their pieces."""

from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

from txexport.checkpoints.checkpoint import read_json
from txexport.errors import CheckpointError, UnsupportedError

UNIGRAM, BPE = 1, 2  # the type of a model
NORMAL, KINDS = 1, {1, 2, 3, 5}  # types of pieces: normal, unknown, control, unused
DEFINED = 4  # a piece that a user defined, which is never split
MOST = 10_000_000  # words
GAPS = 100_000  # ids without a word
SPECIAL = ("</s>", "<unk>", "<pad>")

# The fields that are read of a SentencePiece model (sentencepiece_model.proto); others are skipped.
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


def read(file: Path):
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
    result: dict = {
        "name": name,
        "number": number,
        "label": "LABEL_REPEATED" if name == "pieces" else "LABEL_OPTIONAL",
        "type": "TYPE_MESSAGE" if nested else f"TYPE_{kind}",
    }
    if nested:
        result["typeName"] = kind
    if name in DEFAULTS:
        result["defaultValue"] = DEFAULTS[name]
    return result


def scores(file: Path, model) -> dict[str, float]:
    """The score of each text piece. Raises CheckpointError if there is none."""
    result = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    if not result:
        raise CheckpointError(f"{file} has no pieces; copy it again")
    return result


def is_plain(model, scores: dict[str, float], kind: int, defined: bool = False) -> bool:
    """Tell whether `tokenizers` supports it: a model of that type with the usual treatment of spaces.

    Pieces that a user `defined` may be special tokens.
    """
    spaces = model.normalizer
    usual = spaces.precompiled_charsmap and spaces.add_dummy_prefix and spaces.remove_extra_whitespaces
    kinds = {piece.type for piece in model.pieces}
    return (
        model.trainer.model_type == kind
        and kinds <= (KINDS | {DEFINED} if defined else KINDS)
        and bool(usual)
        and not any("▁" in piece[1:] for piece in scores)
    )


def numbered_words(file: Path) -> dict[str, int]:
    """The id of each word. Raises CheckpointError, and UnsupportedError for two words of one id."""
    words = read_json(file)
    if not set(SPECIAL) <= set(words):
        raise CheckpointError(f"{file} has no ids of {', '.join(SPECIAL)}")
    if any(type(number) is not int or not 0 <= number < MOST for number in words.values()):
        raise CheckpointError(f"{file} has values other than ids from 0 to {MOST:,}")
    if max(words.values()) > len(words) + GAPS:
        raise CheckpointError(f"{file} has {len(words)} tokens, and ids up to {max(words.values()):,}")
    if len(set(words.values())) < len(words):
        raise UnsupportedError(f"{file} gives two tokens one id, so no tokenizer.json was made of it")
    return words


def set_spaces(tokenizer: Tokenizer, model) -> None:
    """Set what comes before and after the pieces: the characters' normalisation, and marks for spaces."""
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(model.normalizer.precompiled_charsmap),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    ends = decoders.Replace(Regex("^ +| +$"), "")
    tokenizer.decoder = decoders.Sequence([decoders.Metaspace(), decoders.Fuse(), ends])
