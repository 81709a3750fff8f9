"""Tokenizers that transformers implements in Python only, as tokenizers of `tokenizers` with the same ids."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from txexport.checkpoints.checkpoint import read_json
from txexport.errors import CheckpointError, UnsupportedError, shown

SETTINGS, WORDS = "tokenizer_config.json", "vocab.txt"
BYTES = 256
BYTE_SPECIAL = ("<pad>", "</s>", "<unk>")  # special tokens before the bytes; the others follow them
EXTRA = 125
ESM_SPECIAL = {"unk_token": "<unk>", "cls_token": "<cls>", "eos_token": "<eos>"}
# Tokenizers whose ids `tokenizers` cannot produce, and the reasons.
ALONE = {
    "BertJapaneseTokenizer": "splits texts with MeCab or Sudachi",
    "BioGptTokenizer": "splits texts with the rules of Moses",
    "BlenderbotSmallTokenizer": "spells tokens differently than its vocabulary",
    "FlaubertTokenizer": "splits texts with the rules of Moses",
    "PhobertTokenizer": "spells tokens differently than its vocabulary",
    "XLMTokenizer": "splits texts with the rules of Moses",
}
ALONE_OF_FAMILY = {
    **{"biogpt": "BioGptTokenizer", "blenderbot-small": "BlenderbotSmallTokenizer"},
    **{"flaubert": "FlaubertTokenizer", "xlm": "XLMTokenizer"},
}
SPACES = Regex(r"[\s\x{1c}-\x{1f}\x{85}]+")  # the whitespace of str.split


def converted(folder: Path, model_type: str | None) -> Tokenizer | None:
    """The tokenizer of a folder if it is one of these; else None.

    Raises CheckpointError, UnsupportedError: for one of ALONE too, before its requirements are installed.
    """
    try:
        settings = read_json(folder / SETTINGS)
    except CheckpointError:  # missing or damaged; the next reader of the file reports it
        settings = {}
    kind = settings.get("tokenizer_class")
    if kind == "ByT5Tokenizer":
        return byt5(settings)
    if (kind == "EsmTokenizer" or (kind is None and model_type == "esm")) and (folder / WORDS).is_file():
        return esm(folder, settings)
    alone = kind if kind in ALONE else ALONE_OF_FAMILY.get(model_type or "") if kind is None else None
    if alone is not None and ((folder / WORDS).is_file() or (folder / "vocab.json").is_file()):
        raise UnsupportedError(
            f"{alone} {ALONE[alone]}, in Python only, so no tokenizer.json can be made of {folder}"
        )
    return None


def byt5(settings: dict[str, Any]) -> Tokenizer:
    """The bytes of UTF-8 as tokens (Xue et al. 2022, 3.1).

    Differences from the original: a text that ends with "</s>" gets another one; the ASCII separators 1C to
    1F beside such a token stay; bytes that are no UTF-8, which a model may write, become U+FFFD instead of
    nothing. Raises UnsupportedError.
    """
    for place, name in enumerate(("pad_token", "eos_token", "unk_token")):
        if _text(settings.get(name, BYTE_SPECIAL[place])) != BYTE_SPECIAL[place]:
            raise UnsupportedError(f"{SETTINGS}: {name} is {shown(settings[name])}, expected ByT5's own")
    extra = [f"<extra_id_{number}>" for number in range(EXTRA)]
    more = settings.get("additional_special_tokens", settings.get("extra_special_tokens", extra))
    if [_text(one) for one in more] != extra or settings.get("extra_ids", EXTRA) not in (0, EXTRA):
        raise UnsupportedError(f"{SETTINGS}: expected ByT5's own <extra_id_0> to <extra_id_{EXTRA - 1}>")
    vocabulary = {word: place for place, word in enumerate(BYTE_SPECIAL)}
    letters = _letters()
    vocabulary |= {letters[byte]: len(BYTE_SPECIAL) + byte for byte in range(BYTES)}
    vocabulary |= {word: len(BYTE_SPECIAL) + BYTES + place for place, word in enumerate(extra)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    end = ("</s>", vocabulary["</s>"])
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [end])
    tokenizer.add_special_tokens(
        [AddedToken(word, lstrip=True, rstrip=True, normalized=False) for word in BYTE_SPECIAL]
    )
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in extra])
    return tokenizer


def _letters() -> list[str]:
    """The letter that ByteLevel writes for each byte, as in GPT-2 (Radford et al. 2019)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, BYTES)]
    others = [byte for byte in range(BYTES) if byte not in plain]
    return [chr(byte if byte in plain else BYTES + others.index(byte)) for byte in range(BYTES)]


def esm(folder: Path, settings: dict[str, Any]) -> Tokenizer:
    """The words of vocab.txt, each found anywhere in a text; text between them is unknown.

    Raises CheckpointError, and UnsupportedError for a vocabulary with a repeated word.
    """
    try:
        words = [line.strip() for line in (folder / WORDS).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / WORDS} cannot be read as text: {error}") from None
    if len(set(words)) < len(words) or "" in words:
        raise UnsupportedError(
            f"{folder / WORDS} has a token twice, or an empty one, so no tokenizer.json was made of it"
        )
    unknown, first, end = (_text(settings.get(name, word)) for name, word in ESM_SPECIAL.items())
    vocabulary = {word: place for place, word in enumerate(words)}
    for word in (unknown, first, end):
        if word not in vocabulary:
            raise UnsupportedError(f"{folder / WORDS} lacks {shown(word)}, so no tokenizer.json was made")
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(SPACES, "removed")
    ends = [(word, vocabulary[word]) for word in (first, end)]
    tokenizer.post_processor = processors.TemplateProcessing(
        f"{first} $A {end}", f"{first} $A {end} $B {end}", ends
    )
    marks = [word for word in words if word.startswith("<")]
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words if word not in marks])
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in marks])
    return tokenizer


def _text(token: Any) -> Any:
    """The text of a token in the settings, which have it as a string or with its properties."""
    return token.get("content") if isinstance(token, dict) else token
