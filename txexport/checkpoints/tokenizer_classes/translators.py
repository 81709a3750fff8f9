"""The classes of transformers 5 with language tokens: mBART's and NLLB's."""

from collections.abc import Callable

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.processors import PostProcessor

from txexport.checkpoints.tokenizer_classes.built import Built
from txexport.checkpoints.tokenizer_classes.sentencepiece import (
    SPACE,
    SPACES,
    left,
    precompiled,
    unigram,
)
from txexport.checkpoints.tokenizer_classes.settings import EXTRA, OLD_EXTRA, Settings
from txexport.checkpoints.tokenizer_classes.tokenizer_file import TokenizerFile

# Languages of mBART (Liu et al. 2020), and those that mBART-50 adds (Tang et al. 2020).
LANGUAGES = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"""
MORE_LANGUAGES = """af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF
pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"""


def _around(settings: Settings, usual: str, before: bool) -> Callable[[Built], PostProcessor]:
    """The post-processor that adds the source language, or `usual`, and EOS around or after a text."""
    source = settings.get("src_lang", None) or usual

    def post(built: Built) -> PostProcessor:
        number = built.tokenizer.token_to_id(source)
        mark = built.pair("unk_token") if number is None else (source, number)
        end = built.pair("eos_token")
        first, last = ([mark], [end]) if before else ([], [end, mark])
        start, finish = [token for token, _ in first], [token for token, _ in last]
        return processors.TemplateProcessing(
            [*start, "$A", *finish], [*start, "$A", "$B", *finish], [*first, *last]
        )

    return post


def mbart(settings: Settings, file: TokenizerFile) -> Built:
    """MBartTokenizer."""
    tokens, more = settings.tokens("MBartTokenizer"), settings.get(OLD_EXTRA, None) or []
    tokens["mask_token"] = left(tokens["mask_token"])
    own = LANGUAGES.split()
    extra = [*own, *(token for token in more if token not in own)]
    tokenizer = unigram(file.unigram(3), [], "always", cut=True)
    return Built(tokenizer, tokens, extra, _around(settings, "en_XX", before=False))


def mbart50(settings: Settings, file: TokenizerFile) -> Built:
    """MBart50Tokenizer."""
    tokens = settings.tokens("MBart50Tokenizer")
    tokens["mask_token"] = left(tokens["mask_token"])
    languages = [*LANGUAGES.split(), *MORE_LANGUAGES.split()]
    words, changed = file.scored, None
    if not {word for word, _ in words} & {*languages}:
        first = [(str(tokens[name]), 0.0) for name in ("cls_token", "pad_token", "eos_token", "unk_token")]
        last = [(word, 0.0) for word in [*languages, str(tokens["mask_token"])]]
        changed = [*first, *words[3:], *last]
    tokenizer = unigram(file.unigram(3, changed), [], "always", cut=False)
    tokenizer.normalizer = normalizers.Sequence([*precompiled(file), SPACES])
    extra = [*(settings.get(OLD_EXTRA, None) or []), *languages]
    return Built(tokenizer, tokens, extra, _around(settings, "en_XX", before=True))


def nllb(settings: Settings, file: TokenizerFile) -> Built:
    """NllbTokenizer, whose vocabulary contains its languages."""
    tokens = settings.tokens("NllbTokenizer")
    mask = tokens["mask_token"]
    tokens["mask_token"] = left(mask, normalized=True, special=True)
    tokenizer = Tokenizer(file.bpe(unk_token=str(tokens["unk_token"]), fuse_unk=True))
    if file.charsmap is not None:
        tokenizer.normalizer = normalizers.Sequence([*precompiled(file), SPACES])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(SPACE, prepend_scheme="always")
    extra = settings.get(EXTRA, None)
    extra = settings.get(OLD_EXTRA, None) if extra is None else extra
    behind = settings.get("legacy_behaviour", False)
    return Built(tokenizer, tokens, [*(extra or [])], _around(settings, "eng_Latn", before=not behind))


CLASSES: dict[str, Callable[[Settings, TokenizerFile], Built]] = {
    "MBart50Tokenizer": mbart50,
    "MBartTokenizer": mbart,
    "NllbTokenizer": nllb,
}
