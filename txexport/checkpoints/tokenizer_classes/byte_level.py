"""The byte-level BPE classes of transformers 5: GPT-2's and its descendants."""

from collections.abc import Callable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.processors import PostProcessor

from txexport.checkpoints.tokenizer_classes.built import Built, anew, as_given, plain, roberta, template
from txexport.checkpoints.tokenizer_classes.settings import Settings
from txexport.checkpoints.tokenizer_classes.tokenizer_file import TokenizerFile
from txexport.support.tokenizer_classes import CLASSES as DEFAULTS
from txexport.support.tokenizer_classes import WHISPER

QWEN_WORDS = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN3_5_WORDS = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP_WORDS = Regex(
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def _bytes(file: TokenizerFile, spaced: bool, **options: bool) -> Tokenizer:
    """GPT-2's, with a space before a text if `spaced`."""
    tokenizer = Tokenizer(file.bpe())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced, **options)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def gpt2(settings: Settings, file: TokenizerFile) -> Built:
    """GPT2Tokenizer."""
    return Built(_bytes(file, settings.get("add_prefix_space", False)), settings.tokens("GPT2Tokenizer"))


def whisper(settings: Settings, file: TokenizerFile) -> Built:
    """WhisperTokenizer without its prefix tokens: it only decodes here."""
    tokens = settings.tokens(WHISPER)
    for name in DEFAULTS[WHISPER].special_tokens:
        if isinstance(tokens[name], str):
            tokens[name] = AddedToken(tokens[name], normalized=False, special=True)
    return Built(_bytes(file, settings.get("add_prefix_space", False)), tokens)


def gpt_neox(settings: Settings, file: TokenizerFile) -> Built:
    """GPTNeoXTokenizer, which adds no token before a text, whatever tokenizer.json says."""
    tokenizer = _bytes(
        file, settings.get("add_prefix_space", False), trim_offsets=settings.get("trim_offsets", True)
    )
    tokenizer.normalizer = normalizers.NFC()
    return Built(tokenizer, settings.tokens("GPTNeoXTokenizer"), post=plain)


def roberta_tokenizer(settings: Settings, file: TokenizerFile) -> Built:
    """RobertaTokenizer."""
    spaced, trimmed = settings.get("add_prefix_space", False), settings.get("trim_offsets", True)
    post = roberta("sep_token", "cls_token", trimmed, spaced)
    return Built(_bytes(file, spaced), settings.tokens("RobertaTokenizer"), post=post)


def layoutlmv3(settings: Settings, file: TokenizerFile) -> Built:
    """LayoutLMv3Tokenizer, which reads words."""
    spaced = settings.get("add_prefix_space", True)
    post = roberta("sep_token", "cls_token", True, spaced)
    return Built(_bytes(file, spaced), settings.tokens("LayoutLMv3Tokenizer"), post=post)


def blenderbot(settings: Settings, file: TokenizerFile) -> Built:
    """BlenderbotTokenizer."""
    tokens = settings.tokens("BlenderbotTokenizer")
    if isinstance(tokens["mask_token"], str):
        tokens["mask_token"] = AddedToken(tokens["mask_token"], lstrip=True, normalized=False)
    return Built(_bytes(file, settings.get("add_prefix_space", True)), tokens)


def deberta(settings: Settings, file: TokenizerFile) -> Built:
    """DebertaTokenizer."""
    post = template(
        "{cls_token} $A {sep_token}",
        "{cls_token} $A {sep_token} {sep_token} $B {sep_token}",
        "cls_token",
        "sep_token",
    )
    return Built(
        _bytes(file, settings.get("add_prefix_space", False)), settings.tokens("DebertaTokenizer"), post=post
    )


def cohere(settings: Settings, file: TokenizerFile) -> Built:
    """CohereTokenizer."""
    spaced = settings.get("add_prefix_space", False)
    tokenizer = _bytes(file, spaced)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(spaced, trim_offsets=True)]
    )
    return Built(tokenizer, settings.tokens("CohereTokenizer"), again=as_given)


def qwen2(settings: Settings, file: TokenizerFile) -> Built:
    """Qwen2Tokenizer."""
    tokens = settings.tokens("Qwen2Tokenizer")
    return Built(_qwen(settings, file, QWEN_WORDS), tokens, again=anew)


def qwen3_5(settings: Settings, file: TokenizerFile) -> Built:
    """Qwen3_5Tokenizer."""
    return Built(_qwen(settings, file, QWEN3_5_WORDS), settings.tokens("Qwen3_5Tokenizer"))


def _qwen(settings: Settings, file: TokenizerFile, pieces: Regex) -> Tokenizer:
    spaced = settings.get("add_prefix_space", None) or False
    tokenizer = _bytes(file, spaced)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pieces, "isolated"), pre_tokenizers.ByteLevel(spaced, use_regex=False)]
    )
    return tokenizer


def clip(settings: Settings, file: TokenizerFile) -> Built:
    """CLIPTokenizer."""
    tokens = settings.tokens("CLIPTokenizer")
    tokenizer = Tokenizer(file.bpe(end_of_word_suffix="</w>", unk_token=str(tokens["unk_token"])))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(CLIP_WORDS, "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return Built(tokenizer, tokens, post=roberta("eos_token", "bos_token", False, False))


def codegen(settings: Settings, file: TokenizerFile) -> Built:
    """CodeGenTokenizer: GPT-2's, with a post-processor of its own if tokenizer.json has none."""
    built = gpt2(settings, file)
    built.tokenizer.post_processor = processors.ByteLevel(
        add_prefix_space=True, use_regex=True, trim_offsets=False
    )
    return built


def herbert(settings: Settings, file: TokenizerFile) -> Built:
    """HerbertTokenizer: BPE over characters of words that are split as by BERT."""
    tokens = settings.tokens("HerbertTokenizer")
    unknown = str(tokens["unk_token"])
    tokenizer = Tokenizer(file.bpe(unk_token=unknown, end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")

    def post(built: Built) -> PostProcessor:
        return processors.BertProcessing((built.text("sep_token"), 2), (built.text("cls_token"), 0))

    return Built(tokenizer, tokens, post=post)


def openai_gpt(settings: Settings, file: TokenizerFile) -> Built:
    """OpenAIGPTTokenizer: BPE over characters."""
    tokens = settings.tokens("OpenAIGPTTokenizer")
    tokenizer = Tokenizer(file.bpe(end_of_word_suffix="</w>", unk_token=str(tokens["unk_token"])))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return Built(tokenizer, tokens)


CLASSES: dict[str, Callable[[Settings, TokenizerFile], Built]] = {
    "BlenderbotTokenizer": blenderbot,
    "CLIPTokenizer": clip,
    "CodeGenTokenizer": codegen,
    "CohereTokenizer": cohere,
    "DebertaTokenizer": deberta,
    "GPT2Tokenizer": gpt2,
    "GPTNeoXTokenizer": gpt_neox,
    "HerbertTokenizer": herbert,
    "LayoutLMv3Tokenizer": layoutlmv3,
    "OpenAIGPTTokenizer": openai_gpt,
    "Qwen2Tokenizer": qwen2,
    "Qwen3_5Tokenizer": qwen3_5,
    "RobertaTokenizer": roberta_tokenizer,
    "WhisperTokenizer": whisper,
}
