"""Pre-tokenization before byte-level BPE, by llama.cpp's names for it.

Source: llama-vocab.cpp, whose expressions are those of the models' own tokenizer.json.
"""

from tokenizers import Regex, pre_tokenizers

_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _REST
_QWEN2 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

# A single expression.
WHOLE: dict[str, str] = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _QWEN2),
    "tekken": _TEKKEN,
    "bloom": _BLOOM,
}
# GPT-2's expression splits the pieces of these further.
GPT2, FALCON = "gpt-2", "falcon"
BEFORE: dict[str, str | None] = {
    **dict.fromkeys((GPT2, "phi-2", "mpt", "olmo"), None),
    **dict.fromkeys(("starcoder", "smollm", "refact"), r"\p{N}"),
    FALCON: r"[\p{P}\$\+<=>\^~\|`]+",
}
NAMES = (*WHOLE, *BEFORE)
KEEP_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "tekken")  # a piece that is a token is not merged
BEGINNING = KEEP_WORDS  # default: texts begin with BOS
COMPOSED = ("qwen2", "deepseek-r1-qwen", "olmo", "mpt")  # NFC normalisation


def pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that splits texts and writes bytes as letters."""
    if name in WHOLE:
        return pre_tokenizers.Sequence([_cut(WHOLE[name]), _letters(False)])
    pattern = BEFORE[name]
    first = [] if pattern is None else [_cut(pattern)]
    last = [_cut("[0-9][0-9][0-9]")] if name == FALCON else []
    return pre_tokenizers.Sequence([*first, _letters(True), *last])


def _cut(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _letters(cut: bool) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut)
