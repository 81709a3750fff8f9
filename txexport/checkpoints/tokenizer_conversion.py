"""A tokenizer.json for checkpoints that lack one."""

import warnings
from importlib.util import find_spec
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from txexport.checkpoints import (
    m2m100_tokenizer,
    python_tokenizers,
    sentencepiece_model,
    speech_to_text_tokenizer,
    transformers_loading,
)
from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.sentencepiece_model import SPECIAL, UNIGRAM, numbered_words
from txexport.errors import CheckpointError, TxexportError, UnsupportedError, first_line, is_failure

TOKENIZER = "tokenizer.json"
LISTS = ("vocab.json", "tekken.json")  # of words; the latter is Mistral's
NOWHERE = "\0"  # a prefix that no text contains: every normalizer of SentencePiece removes it


def tokenizer_json(folder: Path, model_type: str | None = None) -> str | None:
    """The content of tokenizer.json, converted from a checkpoint's other files; None if that is impossible.

    The SentencePiece models and vocabularies of Marian, M2M-100 and Speech2Text, ESM's words and ByT5's bytes
    are converted here; all others by transformers if it is installed, which takes `model_type` if config.json
    has none. Raises CheckpointError for files that cannot be read.
    """
    try:
        plain = python_tokenizers.converted(folder, model_type)
        if plain is not None:
            return plain.to_str()
        if (folder / "source.spm").is_file() and (folder / "vocab.json").is_file():
            return marian(folder).to_str()
        if m2m100_tokenizer.is_one(folder, model_type):
            return m2m100_tokenizer.m2m100(folder).to_str()
        if speech_to_text_tokenizer.is_one(folder, model_type):
            return speech_to_text_tokenizer.speech_to_text(folder).to_str()
    except UnsupportedError as error:
        warnings.warn(str(error), stacklevel=2)
        return None
    except TxexportError:
        raise
    except BaseException as error:  # the exceptions of tokenizers and protobuf share no base class
        if not is_failure(error):
            raise
        raise CheckpointError(f"{folder}: no tokenizer can be made of its vocabulary: {error}") from None
    words = any(path.suffix in (".model", ".txt") or path.name in LISTS for path in folder.iterdir())
    return _by_transformers(folder, model_type) if words else None


def marian(folder: Path) -> Tokenizer:
    """The tokenizer of source.spm and vocab.json: it encodes the source language, and decodes both.

    Differences from the original: Among equally likely segmentations, as of one letter many times, it may
    choose another. A piece that vocab.json lacks is not used, where the original reads it as unknown; a
    warning has their number. A language code in vocab.json, as in ">>fra<< A cat.", is one token anywhere in
    a text, and any other code is read as text. A combining accent after a compatibility letter, as in a
    ligature with an acute, is lost (`tokenizers` replaces both together). Raises CheckpointError, and
    UnsupportedError for files that do not fit one tokenizer.
    """
    settings = folder / "tokenizer_config.json"
    if settings.is_file() and read_json(settings).get("separate_vocabs"):
        raise UnsupportedError(f"{folder}: tokenizer.json cannot hold two vocabularies")
    file, words = folder / "source.spm", numbered_words(folder / "vocab.json")
    model = sentencepiece_model.read(file)
    scores = sentencepiece_model.scores(file, model)
    if not sentencepiece_model.is_plain(model, scores, UNIGRAM):
        raise UnsupportedError(f"{file} is no plain unigram model, so no tokenizer.json was made of it")
    lacking = len(scores.keys() - words.keys())
    if lacking:
        message = f"vocab.json lacks {lacking} of the pieces of {file}, and texts are cut without them"
        warnings.warn(message, stacklevel=2)

    def spelt(word: str) -> str:
        read = word in scores or word in SPECIAL or _is_code(word) or len(word) == 1
        return word if read else NOWHERE + word

    least, numbered = min(scores.values()), {number: word for word, number in words.items()}
    vocabulary = [(f"{NOWHERE}{number}", least) for number in range(max(numbered) + 1)]
    for number, word in numbered.items():
        vocabulary[number] = spelt(word), scores.get(word, least)
    tokenizer = Tokenizer(models.Unigram(vocabulary, words["<unk>"], byte_fallback=False))
    tokenizer.normalizer = _normalizer(model.normalizer.precompiled_charsmap, set("".join(scores)))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    pieces = [decoders.Replace(NOWHERE, ""), decoders.Metaspace()]
    ends = decoders.Replace(Regex("^ +| +$"), "")
    tokenizer.decoder = decoders.Sequence([*pieces, decoders.Fuse(), ends])
    tokenizer.post_processor = processors.TemplateProcessing(
        "$A </s>", "$A $B </s>", [("</s>", words["</s>"])]
    )
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words if _is_code(word)])
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in SPECIAL])
    return tokenizer


def _is_code(word: str) -> bool:
    return word.startswith(">>") and word.endswith("<<")


def _normalizer(characters: bytes, letters: set[str]) -> normalizers.Normalizer:
    """SentencePiece's normalizer; in addition, a run of letters that no piece has becomes one unknown word.

    A single such letter may be a word of vocab.json, where the original looks it up.
    """
    known = "".join(f"\\x{{{ord(letter):x}}}" for letter in sorted(letters | {" "}))
    unknown = normalizers.Replace(Regex(f"[^{known}]{{2,}}"), NOWHERE)
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    return normalizers.Sequence([normalizers.Precompiled(characters), unknown, spaces, normalizers.Strip()])


def _by_transformers(folder: Path, model_type: str | None) -> str | None:
    """The tokenizer converted by transformers; None without transformers, or for a slow tokenizer.

    None too, with a warning, for files that it cannot read, or that belong to another family, of which it
    makes a tokenizer with special tokens only.
    """
    if find_spec("transformers") is None:
        return None
    options = {}
    if model_type is not None and (values := read_json(folder / "config.json")).get("model_type") is None:
        options["config"] = transformers_loading.config_of(values | {"model_type": model_type})
    try:
        with warnings.catch_warnings(action="ignore"):
            tokenizer = transformers_loading.from_pretrained("AutoTokenizer", folder, **options)
    except BaseException as error:  # the exceptions of these libraries share no base class
        if not is_failure(error):
            raise
        message = first_line(error)
        warnings.warn(f"transformers could not make a tokenizer of {folder}: {message}", stacklevel=3)
        return None
    if not tokenizer.is_fast:
        kind = type(tokenizer).__name__
        warnings.warn(
            f"{kind} exists only in Python, so no tokenizer.json can be made of {folder}", stacklevel=3
        )
        return None
    if len(tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)) <= 1:
        warnings.warn(f"{folder} has no vocabulary that its tokenizer reads", stacklevel=3)
        return None
    return tokenizer.backend_tokenizer.to_str()
