"""Language tokens of translation models such as mBART-50 and NLLB."""

from collections.abc import Sequence

from tokenizers import Encoding

from txexport.errors import InputError, shown
from txexport.runtime.preprocessing.text import Text, token_text
from txexport.support.near_names import did_you_mean


def language_token(text: Text, language: str) -> int:
    """The id of the token for `language`, such as "fr_XX", "fra_Latn", or "fr" for "__fr__".

    Raises InputError where there is no such special token; the message suggests similar ones.
    """
    special = {token.content: i for i, token in _added(text).items() if token.special}
    if isinstance(language, str) and f"__{language}__" in special:
        return special[f"__{language}__"]
    if not isinstance(language, str) or language not in special:
        hint = did_you_mean(language, special, cutoff=0.4)
        raise InputError(f"the tokenizer has no token for language {shown(language)}{hint}")
    return special[language]


def in_language(text: Text, encodings: Sequence[Encoding], language: str) -> list[list[int]]:
    """Rows of ids in which the source language token is that of `language`.

    That token is the one that the tokenizer adds to every text beside other special tokens. Raises InputError
    where it adds none, or the language is not known.
    """
    wanted, named = language_token(text, language), _named(text)
    marks = [token for token in text.encode([""])[0].ids if token not in named]
    if len(marks) != 1:
        raise InputError(
            f"the tokenizer adds no language token to texts, so src_lang {shown(language)} has no effect"
        )
    return [
        [
            wanted if token == marks[0] and added else token
            for token, added in zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        ]
        for encoding in encodings
    ]


def _added(text: Text) -> dict:
    return text.tokenizer.get_added_tokens_decoder()


def _named(text: Text) -> set[int]:
    """Ids of special tokens that mark no language: those of the settings, and <s>, </s> and so on."""
    names = ("bos_token", "eos_token", "sep_token", "cls_token", "pad_token")
    named = [token_text(text.settings.get(name)) for name in names]
    spelt = {value for value in named if isinstance(value, str)}
    spelt |= {"<s>", "</s>", "<pad>", "<unk>", "<mask>"}
    return {i for i, token in _added(text).items() if token.content in spelt}


def refuse_languages(*languages: str | None) -> None:
    """Raise InputError for a language, which models of speech and images would ignore."""
    if any(language is not None for language in languages):
        raise InputError("src_lang and tgt_lang are for text translation models; for speech choose language")
