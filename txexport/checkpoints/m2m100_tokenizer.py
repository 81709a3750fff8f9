"""M2M-100's tokenizer, which transformers implements in Python only, as one of `tokenizers`."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, processors

from txexport.checkpoints import sentencepiece_model
from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.sentencepiece_model import BPE, SPECIAL, numbered_words
from txexport.errors import UnsupportedError, shown

PIECES, WORDS, SETTINGS = "sentencepiece.bpe.model", "vocab.json", "tokenizer_config.json"
KIND = "M2M100Tokenizer"
SPACE = "▁"
# In the order of their ids (Fan et al. 2021; Tran et al. 2021).
LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he "
        "hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no "
        "ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo "
        "zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}


def is_one(folder: Path, model_type: str | None) -> bool:
    """Tell whether a folder has this tokenizer's files and names no other tokenizer."""
    if not ((folder / PIECES).is_file() and (folder / WORDS).is_file()):
        return False
    kind = _settings(folder).get("tokenizer_class")
    return kind == KIND or (kind is None and model_type == "m2m_100")


def m2m100(folder: Path) -> Tokenizer:
    """The tokenizer of sentencepiece.bpe.model and vocab.json; texts begin with the token of `src_lang`.

    Differences from the original: A language's token, such as "__fr__", is a token anywhere in a text, also
    if the settings do not list it as a special token. Runs of one letter may be merged differently. A
    combining accent after a compatibility letter is lost (`tokenizers` replaces both together). Raises
    CheckpointError, and UnsupportedError for models that are not tokenised equally, for example if vocab.json
    lacks a piece: the original reads it as unknown, but here every merged piece needs an id.
    """
    file, settings = folder / PIECES, _settings(folder)
    words, model = numbered_words(folder / WORDS), sentencepiece_model.read(file)
    scores = sentencepiece_model.scores(file, model)
    if not sentencepiece_model.is_plain(model, scores, BPE):
        raise UnsupportedError(f"{file} is no plain BPE model, so no tokenizer.json was made of it")
    _check_pieces(file, scores, words)
    languages = _languages(settings)
    vocabulary = words | {token: len(words) + place for place, token in enumerate(languages)}
    tokenizer = Tokenizer(models.BPE(vocabulary, _merges(scores), unk_token="<unk>", fuse_unk=True))
    sentencepiece_model.set_spaces(tokenizer, model)
    first, end = _source(settings, languages), "</s>"
    tokenizer.post_processor = processors.TemplateProcessing(
        f"{first} $A {end}", f"{first} $A $B {end}", [(word, vocabulary[word]) for word in (first, end)]
    )
    special = ["<s>", *SPECIAL] if "<s>" in words else SPECIAL
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in [*special, *languages]])
    return tokenizer


def _settings(folder: Path) -> dict[str, Any]:
    """The content of tokenizer_config.json, {} if there is none."""
    return read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}


def _languages(settings: dict[str, Any]) -> list[str]:
    """The language tokens. Raises UnsupportedError for others than the original's, or another order."""
    codes = settings.get("language_codes", "m2m100")
    if not isinstance(codes, str) or codes not in LANGUAGES:
        raise UnsupportedError(
            f"{SETTINGS}: language_codes is {shown(codes)}, expected {' or '.join(LANGUAGES)}"
        )
    result = [f"__{code}__" for code in LANGUAGES[codes].split()]
    given = settings.get("additional_special_tokens", settings.get("extra_special_tokens")) or result
    if [one.get("content") if isinstance(one, dict) else one for one in given] != result:
        raise UnsupportedError(f"{SETTINGS}: additional_special_tokens are not the languages' in their order")
    for name, word in (("unk_token", "<unk>"), ("eos_token", "</s>"), ("pad_token", "<pad>")):
        own = settings.get(name, word)
        if (own.get("content") if isinstance(own, dict) else own) != word:
            raise UnsupportedError(f"{SETTINGS}: {name} is {shown(own)}, expected {word}")
    return result


def _source(settings: dict[str, Any], languages: list[str]) -> str:
    """The token at the beginning of texts. Raises UnsupportedError."""
    language = settings.get("src_lang") or "en"
    if f"__{language}__" not in languages:
        raise UnsupportedError(f"{SETTINGS}: src_lang is {shown(language)}, which is no language of it")
    return f"__{language}__"


def _check_pieces(file: Path, scores: dict[str, float], words: dict[str, int]) -> None:
    """Raise UnsupportedError if merges would differ, or a merged piece has no id."""
    lacking = [piece for piece in scores if piece not in words]
    if lacking:
        raise UnsupportedError(
            f"{file.parent / WORDS} lacks {len(lacking)} pieces of {file}, e.g. {shown(lacking[0])}, so no "
            "tokenizer.json was made of them"
        )
    letters = {letter for piece in scores for letter in piece} | {SPACE}
    apart = [letter for letter in letters if letter not in scores]
    joined = [piece for piece in scores if len(piece) > 1]
    if apart or len({scores[piece] for piece in joined}) < len(joined):
        raise UnsupportedError(
            f"{file} has pieces of letters that are none themselves, or two of one rank, so no "
            "tokenizer.json was made of it"
        )
    read = [word for word in words if word not in scores and word not in SPECIAL and not letters & set(word)]
    if read:
        raise UnsupportedError(
            f"{file.parent / WORDS} has {shown(read[0])}, of letters that no piece has, so no "
            "tokenizer.json was made of it"
        )


def _merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Every merge of two pieces to a piece, the best piece first.

    For one piece, merges with a shorter first part come first: if two overlap in a text, that is the left
    one, which the original takes, except for a piece that repeats one part three times or more.
    """
    ranked = sorted(scores, key=lambda piece: -scores[piece])
    ways = ((piece[:at], piece[at:]) for piece in ranked for at in range(1, len(piece)))
    return [(first, rest) for first, rest in ways if first in scores and rest in scores]
