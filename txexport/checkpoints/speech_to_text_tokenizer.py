"""Speech2Text's tokenizer, which transformers implements in Python only, as one of `tokenizers`."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, processors

from txexport.checkpoints import sentencepiece_model
from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.sentencepiece_model import SPECIAL, UNIGRAM, numbered_words
from txexport.errors import UnsupportedError, shown

PIECES, WORDS, SETTINGS = "sentencepiece.bpe.model", "vocab.json", "tokenizer_config.json"
KIND = "Speech2TextTokenizer"
LANGUAGES = {"mustc": "pt fr ru nl ro it es de"}  # by lang_codes


def is_one(folder: Path, model_type: str | None) -> bool:
    """Tell whether a folder has this tokenizer's files and names no other tokenizer."""
    if not ((folder / PIECES).is_file() and (folder / WORDS).is_file()):
        return False
    kind = _settings(folder).get("tokenizer_class")
    return kind == KIND or (kind is None and model_type == "speech_to_text")


def speech_to_text(folder: Path) -> Tokenizer:
    """The tokenizer of sentencepiece.bpe.model and vocab.json; with languages texts begin with `tgt_lang`'s.

    Differences from the original: among equally likely segmentations it may choose another, and a combining
    accent after a compatibility letter is lost (`tokenizers` replaces both together). Raises CheckpointError,
    and UnsupportedError for files of which no equal tokenizer can be made.
    """
    file, settings = folder / PIECES, _settings(folder)
    if settings.get("do_upper_case"):
        raise UnsupportedError(f"{folder / SETTINGS}: do_upper_case, so no tokenizer.json was made")
    ids, model = numbered_words(folder / WORDS), sentencepiece_model.read(file)
    languages = _languages(settings)
    defined = {piece.piece for piece in model.pieces if piece.type == sentencepiece_model.DEFINED}
    scores = sentencepiece_model.scores(file, model)
    lacking = [word for word in (*scores, *languages) if word not in ids]
    if not sentencepiece_model.is_plain(model, scores, UNIGRAM, defined=True) or defined - {*languages}:
        raise UnsupportedError(f"{file} is no plain unigram model, so no tokenizer.json was made of it")
    if lacking:
        raise UnsupportedError(f"{folder / WORDS} lacks {shown(lacking[0])}, so no tokenizer.json was made")
    if sorted(ids.values()) != [*range(len(ids))]:
        raise UnsupportedError(f"{folder / WORDS} leaves ids out, so no tokenizer.json was made")
    least = min(scores.values()) - 10  # of ids that are no pieces, which are never read
    vocabulary = sorted(ids, key=ids.__getitem__)
    unigrams = [(word, scores.get(word, least)) for word in vocabulary]
    tokenizer = Tokenizer(models.Unigram(unigrams, ids["<unk>"], byte_fallback=False))
    sentencepiece_model.set_spaces(tokenizer, model)
    end: dict[str, Any] = {"id": "end", "ids": [ids["</s>"]], "tokens": ["</s>"]}
    first, marks = "", [end]
    if languages:
        target = _target(settings, languages)
        first = "language "  # a name without the colon of its token
        marks.append({"id": "language", "ids": [ids[target]], "tokens": [target]})
    tokenizer.post_processor = processors.TemplateProcessing(f"{first}$A end", f"{first}$A $B end", marks)
    special = ["<s>", *SPECIAL] if "<s>" in ids else SPECIAL
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in (*special, *languages)])
    return tokenizer


def _settings(folder: Path) -> dict[str, Any]:
    """The content of tokenizer_config.json, {} if there is none."""
    return read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}


def _languages(settings: dict[str, Any]) -> list[str]:
    """The tokens of target languages. Raises UnsupportedError for other ones than the original's."""
    for name, word in (("unk_token", "<unk>"), ("eos_token", "</s>"), ("pad_token", "<pad>")):
        value = settings.get(name, word)
        if (value.get("content") if isinstance(value, dict) else value) != word:
            raise UnsupportedError(f"{SETTINGS}: {name} is {shown(value)}, expected {word}")
    codes = settings.get("lang_codes")
    if codes is None:
        return []
    if not isinstance(codes, str) or codes not in LANGUAGES:
        raise UnsupportedError(f"{SETTINGS}: lang_codes is {shown(codes)}, expected {', '.join(LANGUAGES)}")
    return [f"<lang:{code}>" for code in LANGUAGES[codes].split()]


def _target(settings: dict[str, Any], languages: list[str]) -> str:
    """The token at the beginning of texts. Raises UnsupportedError."""
    language = settings.get("tgt_lang")
    token = languages[0] if language is None else f"<lang:{language}>"
    if token not in languages:
        raise UnsupportedError(f"{SETTINGS}: tgt_lang is {shown(language)}, which is no language of it")
    return token
