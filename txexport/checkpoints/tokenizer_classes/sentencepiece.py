"""The SentencePiece classes of transformers 5: Llama's, T5's and others."""

from collections.abc import Callable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import Model
from tokenizers.normalizers import Normalizer

from txexport.checkpoints.tokenizer_classes.built import Built, as_given, template
from txexport.checkpoints.tokenizer_classes.settings import OLD_EXTRA, Settings
from txexport.checkpoints.tokenizer_classes.tokenizer_file import TokenizerFile
from txexport.support.tokenizer_classes import INFILLING

SPACE = "▁"
DECODER = (decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse())
QUOTES = (normalizers.Replace("``", '"'), normalizers.Replace("''", '"'))
SPACES = normalizers.Replace(Regex(" {2,}"), " ")
AROUND = template(
    "{cls_token}:0 $A:0 {sep_token}:0",
    "{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1",
    "cls_token",
    "sep_token",
)
ENDS = template(
    "{cls_token} $A {sep_token}",
    "{cls_token} $A {sep_token} {sep_token} $B {sep_token}",
    "cls_token",
    "sep_token",
)
TWICE = template(
    "{bos_token} $A {eos_token}",
    "{bos_token} $A {eos_token} {eos_token} $B {eos_token}",
    "bos_token",
    "eos_token",
)


def unigram(model: Model, normalizer: list[Normalizer], scheme: str, cut: bool) -> Tokenizer:
    """A unigram model whose words begin with SPACE, by `scheme`; with `cut`, texts are split at spaces."""
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer[0] if len(normalizer) == 1 else normalizers.Sequence(normalizer)
    spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces]) if cut else spaces
    )
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    return tokenizer


def precompiled(file: TokenizerFile) -> list[Normalizer]:
    """SentencePiece's table of characters, if there is one."""
    return [] if file.charsmap is None else [normalizers.Precompiled(file.charsmap)]


def _scheme(settings: Settings) -> str:
    return "always" if settings.get("add_prefix_space", True) else "never"


def left(token: Any, **options: bool) -> Any:
    """The mask token, which strips the spaces before it."""
    return AddedToken(token, lstrip=True, **options) if isinstance(token, str) else token


def _letters(settings: Settings, accents: bool, lower: bool) -> list[Normalizer]:
    """A normalizer that removes accents unless they are kept, and lowercases on request."""
    keep_accents = settings.get("keep_accents", accents)
    result: list[Normalizer] = [] if keep_accents else [normalizers.NFKD(), normalizers.StripAccents()]
    return [*result, normalizers.Lowercase()] if settings.get("do_lower_case", lower) else result


def llama(settings: Settings, file: TokenizerFile) -> Built:
    """LlamaTokenizer: a space before the text only; if `legacy`, also after special tokens."""
    spaced = settings.get("add_prefix_space", None)
    spaced = True if spaced is None else spaced
    scheme = ("always" if settings.get("legacy", False) else "first") if spaced else "never"
    tokenizer = Tokenizer(file.bpe(fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    tokenizer.decoder = decoders.Sequence([*DECODER, *([decoders.Strip(" ", left=1)] if spaced else [])])
    return Built(tokenizer, settings.tokens("LlamaTokenizer"))


def siglip2(settings: Settings, file: TokenizerFile) -> Built:
    """Siglip2Tokenizer: GemmaTokenizer behind lower case."""
    built = gemma(settings, file, "Siglip2Tokenizer")
    built.tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace(" ", SPACE)]
    )
    return built


def gemma(settings: Settings, file: TokenizerFile, kind: str = "GemmaTokenizer") -> Built:
    """GemmaTokenizer."""
    tokens = settings.tokens(kind)
    unknown = str(tokens["unk_token"])
    tokenizer = Tokenizer(file.bpe(fuse_unk=True, unk_token=unknown, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([*DECODER])
    return Built(tokenizer, tokens)


def t5(settings: Settings, file: TokenizerFile) -> Built:
    """T5Tokenizer."""
    count = settings.get("extra_ids", 100)
    sentinels = [f"<extra_id_{number}>" for number in range(count)]
    more = settings.get(OLD_EXTRA, None)
    extra = sentinels if more is None else [*more]
    if more is not None and not any("<extra_id_" in str(token) for token in more):
        extra += sentinels
    tokenizer = unigram(file.unigram(2), precompiled(file), "always", cut=True)
    tokens = settings.tokens("T5Tokenizer")
    post = template("$A </s>", "$A </s> $B </s>", "eos_token")
    return Built(tokenizer, tokens, extra, post)


def xlm_roberta(settings: Settings, file: TokenizerFile) -> Built:
    """XLMRobertaTokenizer."""
    tokenizer = unigram(file.unigram(3), precompiled(file), _scheme(settings), cut=True)
    return Built(tokenizer, settings.tokens("XLMRobertaTokenizer"), post=TWICE)


def layoutxlm(settings: Settings, file: TokenizerFile) -> Built:
    """LayoutXLMTokenizer, which reads words; several spaces are one piece."""
    tokens = settings.tokens("LayoutXLMTokenizer")
    tokens["mask_token"] = left(tokens["mask_token"])
    spaces = [normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), SPACE)]
    tokenizer = unigram(file.unigram(3), spaces, _scheme(settings), cut=False)
    return Built(tokenizer, tokens, post=ENDS)


def camembert(settings: Settings, file: TokenizerFile) -> Built:
    """CamembertTokenizer."""
    tokens = settings.tokens("CamembertTokenizer")
    pieces = file.scored
    unknown = next((place for place, (word, _) in enumerate(pieces) if word == str(tokens["unk_token"])), 0)
    tokens["mask_token"] = left(tokens["mask_token"], special=True)
    extra = settings.get(OLD_EXTRA, None)
    tokenizer = unigram(file.unigram(unknown), precompiled(file), _scheme(settings), cut=True)
    unused = ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
    return Built(tokenizer, tokens, unused if extra is None else extra, TWICE)


def albert(settings: Settings, file: TokenizerFile) -> Built:
    """AlbertTokenizer."""
    normalizer = [*QUOTES, *_letters(settings, accents=False, lower=True), *precompiled(file)]
    tokenizer = unigram(file.unigram(1), normalizer, _scheme(settings), cut=True)
    return Built(tokenizer, settings.tokens("AlbertTokenizer"), post=AROUND)


def albert_of_file(settings: Settings, file: TokenizerFile) -> Built:
    """FNetTokenizer: AlbertTokenizer's special tokens, but all else as in tokenizer.json."""
    return Built(file.tokenizer, settings.tokens("AlbertTokenizer"))


def rembert(settings: Settings, file: TokenizerFile) -> Built:
    """RemBertTokenizer."""
    normalizer = [*QUOTES, SPACES, *_letters(settings, accents=True, lower=False), *precompiled(file)]
    tokenizer = unigram(file.unigram(2), normalizer, _scheme(settings), cut=False)
    return Built(tokenizer, settings.tokens("RemBertTokenizer"), post=AROUND, again=as_given)


def big_bird(settings: Settings, file: TokenizerFile) -> Built:
    """BigBirdTokenizer."""
    tokens = settings.tokens("BigBirdTokenizer")
    pieces = file.scored
    first = (str(tokens["unk_token"]), 0.0)
    for name, token in tokens.items():
        if isinstance(token, str):
            tokens[name] = AddedToken(token, lstrip=name == "mask_token")
    normalizer = [
        normalizers.Strip(left=False, right=False),
        normalizers.Replace(Regex(" {2,}"), SPACE),
    ]
    unknown = pieces.index(first) if first in pieces else 100
    return Built(
        unigram(file.unigram(unknown), normalizer, _scheme(settings), cut=False), tokens, post=AROUND
    )


def deberta_v2(settings: Settings, file: TokenizerFile) -> Built:
    """DebertaV2Tokenizer."""
    tokens = settings.tokens("DebertaV2Tokenizer")
    pieces = file.scored
    first = (str(tokens["unk_token"]), 0.0)
    unknown = pieces.index(first) if first in pieces else settings.get("unk_id", 1)
    lower = [normalizers.Lowercase()] if settings.get("do_lower_case", False) else []
    spaces = normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " ")
    normalizer = [*lower, spaces, normalizers.NFC(), normalizers.Strip(left=False, right=True)]
    scheme = "always" if settings.get("add_prefix_space", True) else "first"
    tokenizer = unigram(file.unigram(unknown), normalizer, scheme, cut=False)
    marks = [pre_tokenizers.Punctuation("isolated")] if settings.get("split_by_punct", False) else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*marks, tokenizer.pre_tokenizer])
    return Built(tokenizer, tokens, post=AROUND)


def pegasus(settings: Settings, file: TokenizerFile) -> Built:
    """PegasusTokenizer."""
    tokens = settings.tokens("PegasusTokenizer")
    sentence, more = settings.get("mask_token_sent", "<mask_1>"), settings.get(OLD_EXTRA, None) or []
    extra = [sentence] if sentence is not None and sentence not in more else []
    extra += [f"<unk_{number}>" for number in range(2, settings.get("offset", 103))]
    pieces = file.scored
    own = precompiled(file) or [normalizers.Replace(Regex(r"\n"), " ")]
    unknown = pieces.index((str(tokens["unk_token"]), 0.0), 1)
    tokenizer = unigram(file.unigram(unknown), [*own, SPACES], "always", cut=False)
    return Built(tokenizer, tokens, extra, template("$A {eos_token}", "$A $B {eos_token}", "eos_token"))


def xglm(settings: Settings, file: TokenizerFile) -> Built:
    """XGLMTokenizer."""
    more = settings.get(OLD_EXTRA, None) or []
    extra = [*more, *(word for number in range(7) if (word := f"<madeupword{number}>") not in more)]
    tokenizer = unigram(file.unigram(3), [*precompiled(file), SPACES], _scheme(settings), cut=False)
    tokenizer.normalizer = normalizers.Sequence([*precompiled(file), SPACES])
    tokens = settings.tokens("XGLMTokenizer")
    post = template("{eos_token} $A", "{eos_token} $A {eos_token} {eos_token} $B", "bos_token", "eos_token")
    return Built(tokenizer, tokens, extra, post)


def xlnet(settings: Settings, file: TokenizerFile) -> Built:
    """XLNetTokenizer."""
    tokens = settings.tokens("XLNetTokenizer")
    tokens["mask_token"] = left(tokens["mask_token"])
    lower = [normalizers.Lowercase()] if settings.get("do_lower_case", False) else []
    normalizer = [*QUOTES, normalizers.NFKD(), normalizers.StripAccents(), *lower, *precompiled(file)]
    tokenizer = unigram(file.unigram(settings.get("unk_id", 0)), normalizer, "always", cut=True)
    more = settings.get(OLD_EXTRA, None)
    post = template(
        "$A:0 {sep_token}:0 {cls_token}:2",
        "$A:0 {sep_token}:0 $B:1 {sep_token}:1 {cls_token}:2",
        "sep_token",
        "cls_token",
    )
    return Built(tokenizer, tokens, ["<eop>", "<eod>"] if more is None else more, post)


def code_llama(settings: Settings, file: TokenizerFile) -> Built:
    """CodeLlamaTokenizer, which puts BOS before a text, whatever tokenizer.json says."""
    tokens = settings.tokens("CodeLlamaTokenizer")
    built = llama(settings, file)
    unknown = str(tokens["unk_token"])
    built.tokenizer.model = file.bpe(fuse_unk=True, byte_fallback=True, unk_token=unknown)
    spaced = settings.get("add_prefix_space", True) is not False
    built.tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        SPACE, prepend_scheme="first" if spaced else "never", split=False
    )
    built.tokenizer.decoder = decoders.Sequence([*DECODER, decoders.Strip(" ", left=1)])
    infilling = [settings.get(name, token) for name, token in INFILLING.items()]
    built.extra = [*(settings.get(OLD_EXTRA, None) or []), *infilling]
    settings.named = INFILLING | settings.named
    built.post = template("{bos_token}:0 $A:0", "{bos_token}:0 $A:0 {bos_token}:1 $B:1", "bos_token")
    return built


CLASSES: dict[str, Callable[[Settings, TokenizerFile], Built]] = {
    "AlbertTokenizer": albert,
    "BigBirdTokenizer": big_bird,
    "CamembertTokenizer": camembert,
    "CodeLlamaTokenizer": code_llama,
    "DebertaV2Tokenizer": deberta_v2,
    "GemmaTokenizer": gemma,
    "LayoutXLMTokenizer": layoutxlm,
    "LlamaTokenizer": llama,
    "PegasusTokenizer": pegasus,
    "RemBertTokenizer": rembert,
    "Siglip2Tokenizer": siglip2,
    "T5Tokenizer": t5,
    "XGLMTokenizer": xglm,
    "XLMRobertaTokenizer": xlm_roberta,
    "XLNetTokenizer": xlnet,
}
OF_FILE: dict[str, Callable[[Settings, TokenizerFile], Built]] = {"FNetTokenizer": albert_of_file}
