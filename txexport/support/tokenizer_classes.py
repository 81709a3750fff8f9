"""The tokenizer classes of transformers 5: the class of each checkpoint, and the defaults of each class.

These are facts of the library: of `AutoTokenizer.from_pretrained`, and of the classes' own arguments. Tests
compare them with it. Export builds tokenizers as these classes do. The runtime reads from them which special
tokens and which inputs a checkpoint leaves to its class.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
GENERIC = "TokenizersBackend"  # reads tokenizer.json unchanged and has no default special tokens
LLAMA, WHISPER, PARAKEET = "LlamaTokenizer", "WhisperTokenizer", "ParakeetTokenizer"


@dataclass(frozen=True)
class TokenizerClass:
    """A class of transformers 5.

    `special_tokens` are its defaults by name. `gives_token_types` says whether `token_type_ids` are among its
    `model_input_names`. `model_types` are those that it reads unless a checkpoint names another class.
    `aliases` are other names of the same class.
    """

    special_tokens: Mapping[str, str] = field(default_factory=dict)
    gives_token_types: bool = False
    model_types: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def _row(
    special_tokens: str = "- - - - - - -",
    model_types: str = "",
    *,
    aliases: str = "",
    types: bool = False,
    more: Mapping[str, str] | None = None,
) -> TokenizerClass:
    """A class with its special tokens in the order of SPECIAL_TOKENS, - for none, then `more`."""
    pairs = zip(SPECIAL_TOKENS, special_tokens.split(), strict=True)
    return TokenizerClass(
        {name: token for name, token in pairs if token != "-"} | dict(more or {}),
        types,
        tuple(model_types.split()),
        tuple(f"{alias}Tokenizer" for alias in aliases.split()),
    )


BERT = "- - [UNK] [SEP] [PAD] [CLS] [MASK]"
DEBERTA = "[CLS] [SEP] [UNK] [SEP] [PAD] [CLS] [MASK]"
GPT2 = "<|endoftext|> <|endoftext|> <|endoftext|> - - - -"
LLAMA_TOKENS = "<s> </s> <unk> - - - -"
ROBERTA = "<s> </s> <unk> </s> <pad> <s> <mask>"
XLNET = "<s> </s> <unk> <sep> <pad> <cls> <mask>"
# CodeLlamaTokenizer's for infilling (Rozière et al. 2023, 2.3), beside Llama's.
INFILLING = {
    "prefix_token": "▁<PRE>",
    "middle_token": "▁<MID>",
    "suffix_token": "▁<SUF>",
    "eot_token": "▁<EOT>",
    "fill_token": "<FILL_ME>",
}
_ROWS = {  # by name, without "Tokenizer"
    "Albert": _row("[CLS] [SEP] <unk> [SEP] <pad> [CLS] [MASK]", "albert"),
    "Barthez": _row(ROBERTA),
    "Bert": _row(
        BERT,
        "bert blip chinese_clip convbert distilbert electra ernie grounding-dino layoutlm megatron-bert "
        "mobilebert nomic_bert squeezebert",
        aliases="Electra LayoutLM Lxmert MobileBert SqueezeBert",
        types=True,
    ),
    "BigBird": _row("<s> </s> <unk> [SEP] <pad> [CLS] [MASK]", "big_bird"),
    "Blenderbot": _row(ROBERTA, "blenderbot"),
    "CLIP": _row(
        "<|startoftext|> <|endoftext|> <|endoftext|> - <|endoftext|> - -", "clip clipseg owlv2 owlvit"
    ),
    "Camembert": _row(ROBERTA, "camembert"),
    "CodeGen": _row(GPT2),
    "CodeLlama": _row(LLAMA_TOKENS, more=INFILLING),
    "Cohere": _row(
        "<BOS_TOKEN> <|END_OF_TURN_TOKEN|> <UNK> <SEP> <PAD> <CLS> <MASK_TOKEN>", "cohere cohere2"
    ),
    "ConvBert": _row(BERT, types=True),
    "DPRContextEncoder": _row(BERT, types=True),
    "DPRQuestionEncoder": _row(BERT, "dpr", types=True),
    "DPRReader": _row(BERT),
    "Deberta": _row(DEBERTA, "deberta", types=True),
    "DebertaV2": _row(DEBERTA, "deberta-v2", types=True),
    "DistilBert": _row(BERT),
    "FNet": _row("[CLS] [SEP] <unk> [SEP] <pad> [CLS] [MASK]", "fnet", types=True),
    "Funnel": _row(XLNET),
    "GPT2": _row(GPT2, "codegen dbrx gpt2 gpt_neo gptj jais2 opt phi starcoder2"),
    "GPTNeoX": _row(
        "<|endoftext|> <|endoftext|> <|endoftext|> - <|padding|> - -",
        "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv",
    ),
    "Gemma": _row(
        "<bos> <eos> <unk> - <pad> - <mask>",
        "gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma t5gemma",
    ),
    "Herbert": _row("- - <unk> </s> <pad> <s> <mask>"),
    "LayoutLMv3": _row(ROBERTA, "layoutlmv3"),
    "LayoutXLM": _row(ROBERTA),
    "Llama": _row(LLAMA_TOKENS, aliases="Phi3"),
    "MBart": _row(ROBERTA, "mbart"),
    "MBart50": _row("- </s> <unk> </s> <pad> <s> <mask>"),
    "MPNet": _row("<s> </s> [UNK] </s> <pad> <s> <mask>", "mpnet"),
    "Nllb": _row(ROBERTA),
    "OpenAIGPT": _row("- - <unk> - - - -", "openai-gpt"),
    "Parakeet": _row(model_types="omniasr_ctc parakeet_ctc"),
    "Pegasus": _row("- </s> <unk> - <pad> - <mask_2>", "pegasus"),
    "Qwen2": _row(
        "- <|endoftext|> <|endoftext|> - <|endoftext|> - -",
        "audioflamingo3 colqwen2 internvl qwen2 qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_moe "
        "qwen3_next qwen3_vl qwen3_vl_moe",
    ),
    "Qwen3_5": _row(
        "- <|endoftext|> <|endoftext|> - <|endoftext|> - -",
        "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text",
    ),
    "RemBert": _row("[CLS] [SEP] <unk> [SEP] <pad> [CLS] [MASK]", "rembert"),
    "Roberta": _row(
        ROBERTA,
        "bart clap data2vec-text florence2 lilt longformer mvp roberta roberta-prelayernorm",
        aliases="Bart LED Longformer Mvp",
    ),
    "Siglip2": _row("<bos> <eos> <unk> - <pad> - <mask>", "siglip2"),
    "Splinter": _row(BERT, "splinter", more={"question_token": "[QUESTION]"}),
    "T5": _row("- </s> <unk> - <pad> - -", "mt5 switch_transformers t5"),
    "Whisper": _row(GPT2, "whisper"),
    "XGLM": _row("<s> </s> <unk> </s> <pad> <s> -", "xglm"),
    "XLMRoberta": _row(ROBERTA, "gte jina_embeddings_v3 xlm-roberta"),
    "XLNet": _row(XLNET, "xlnet"),
    # Those below are not built from a tokenizer.json, and their special tokens are not listed.
    "BertGeneration": _row(model_types="bert-generation"),
    "BioGpt": _row(model_types="biogpt"),
    "BlenderbotSmall": _row(model_types="blenderbot-small"),
    "Canine": _row(types=True),
    "Esm": _row(model_types="esm"),
    "Flaubert": _row(model_types="flaubert"),
    "LayoutLMv2": _row(types=True),
    "M2M100": _row(model_types="m2m_100"),
    "Marian": _row(model_types="marian"),
    "MarkupLM": _row(types=True),
    "PLBart": _row(model_types="plbart"),
    "RoFormer": _row(model_types="roformer"),
    "Siglip": _row(model_types="siglip"),
    "Speech2Text": _row(model_types="speech_to_text"),
    "Tapas": _row(types=True),
    "XLM": _row(model_types="xlm"),
}
_OTHERS = """Bartpho BertJapanese Bertweet ByT5 CTRL Clvp CpmAnt Cpm Dia Esmc FSMT FastSpeech2Conformer
GPTNeoXJapanese GPTSw3 Lasr Luke MLuke Mgpstr MyT5 Nougat Perceiver
Phobert Pop2Piano ProphetNet Rag Reformer RoCBert SeamlessM4T SpeechT5
Tipsv2 Udop VideoPrism Vits Wav2Vec2CTC Wav2Vec2PhonemeCTC"""
_GENERIC_MODELS = """bigbird_pegasus ernie4_5 ernie4_5_moe flex_olmo glm glm4 glm4_moe glm4_moe_lite
gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared hyperclovax internlm3 iquestcoder jamba
kimi_linear llava llava_next minicpm3 minimax_m2 ministral3 mistral mistral3 mixtral modernbert
modernbert-decoder nemotron olmo2 olmo3 olmo_hybrid phi3 phimoe pix2struct smolvlm stablelm umt5 voxtral
xlm-roberta-xl"""
# Every class by name; other names mean GENERIC.
CLASSES = {
    GENERIC: _row(model_types=_GENERIC_MODELS),
    **{f"{name}Tokenizer": row for name, row in _ROWS.items()},
    **{f"{name}Tokenizer": _row() for name in _OTHERS.split()},
}
ALIASES = {alias: name for name, row in CLASSES.items() for alias in row.aliases}
OF_MODEL = {model_type: name for name, row in CLASSES.items() for model_type in row.model_types}
# Model types whose checkpoints name a wrong class; the one in OF_MODEL is used.
MISNAMED = {
    "ernie4_5",
    "ernie4_5_moe",
    "hyperclovax",
    "internlm3",
    "iquestcoder",
    "jamba",
    "llava",
    "llava_next",
    "minicpm3",
    "minimax_m2",
    "modernbert",
    "modernbert-decoder",
    "nemotron",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "siglip2",
    "smolvlm",
}


def tokenizer_class(settings: Mapping[str, Any], config: Mapping[str, Any], byte_level: bool = False) -> str:
    """Name the class, a key of CLASSES, that AutoTokenizer takes for a checkpoint.

    `settings` are those of tokenizer_config.json, `config` those of config.json. `byte_level` says whether
    tokenizer.json has a ByteLevel part, as Llama 3's, which LlamaTokenizer does not read.
    """
    named = named_class(settings, config)
    model_type = str(config.get("model_type"))
    registered = OF_MODEL.get(model_type)
    chosen = named or registered or GENERIC
    code = settings.get("auto_map")  # is never run here, but makes transformers trust the named class
    if not (code.get("AutoTokenizer") if isinstance(code, dict) else code):
        if chosen == LLAMA and byte_level and model_type not in MISNAMED:
            return GENERIC
        if registered is not None and (registered == GENERIC or model_type in MISNAMED):
            chosen = registered
    chosen = ALIASES.get(chosen, chosen)
    return chosen if chosen in CLASSES else GENERIC


def named_class(settings: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """Return the class that the files name, without "Fast"; None where they name none."""
    named = settings.get("tokenizer_class") or config.get("tokenizer_class")
    return named.removesuffix("Fast") if isinstance(named, str) else None
