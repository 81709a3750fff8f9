"""Which class of transformers reads a checkpoint's tokenizer, and the special tokens that it has by default.

A checkpoint may leave its special tokens to that class. These are facts of transformers 5: of
`AutoTokenizer.from_pretrained`, and of the classes' own arguments; a test holds them to the library. Classes
that are of encoders alone are left out: no template reads their tokens.
"""

from collections.abc import Mapping
from typing import Any

NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
PLAIN = "TokenizersBackend"  # which has no special tokens of its own
LLAMA, WHISPER = "LlamaTokenizer", "WhisperTokenizer"
# Special tokens in the order of NAMES, - for none, to the classes that have them unless a checkpoint says.
DEFAULTS = {
    "<s> </s> <unk> </s> <pad> <s> <mask>": "Bart Barthez Blenderbot Camembert LED Longformer MBart Mvp Nllb "
    "Roberta XLMRoberta",
    "- - [UNK] [SEP] [PAD] [CLS] [MASK]": "Bert DistilBert Electra Lxmert MobileBert SqueezeBert",
    "- </s> <unk> - <pad> - -": "T5",
    "<s> </s> <unk> <sep> <pad> <cls> <mask>": "Funnel XLNet",
    "- <|endoftext|> <|endoftext|> - <|endoftext|> - -": "Qwen2",
    "<|startoftext|> <|endoftext|> <|endoftext|> - <|endoftext|> - -": "CLIP",
    "- - <unk> - - - -": "OpenAIGPT",
    "<s> </s> <unk> - - - -": "Llama CodeLlama",
    "[CLS] [SEP] [UNK] [SEP] [PAD] [CLS] [MASK]": "Deberta DebertaV2",
    "<|endoftext|> <|endoftext|> <|endoftext|> - - - -": "CodeGen GPT2 Whisper",
    "<bos> <eos> <unk> - <pad> - <mask>": "Gemma",
    "<s> </s> <unk> </s> <pad> <s> -": "XGLM",
    "<BOS_TOKEN> <|END_OF_TURN_TOKEN|> <UNK> <SEP> <PAD> <CLS> <MASK_TOKEN>": "Cohere",
    "<|endoftext|> <|endoftext|> <|endoftext|> - <|padding|> - -": "GPTNeoX",
    "<s> </s> [UNK] </s> <pad> <s> <mask>": "MPNet",
    "- </s> <unk> </s> <pad> <s> <mask>": "MBart50",
}
OF_CLASS = {
    f"{name}Tokenizer": {key: token for key, token in zip(NAMES, tokens.split(), strict=True) if token != "-"}
    for tokens, names in DEFAULTS.items()
    for name in names.split()
}
OF_CLASS["CodeLlamaTokenizer"] |= {
    "prefix_token": "▁<PRE>",
    "middle_token": "▁<MID>",
    "suffix_token": "▁<SUF>",
    "eot_token": "▁<EOT>",
    "fill_token": "<FILL_ME>",
}
# Classes to the values of config.json's model_type that they are for, where the checkpoint names none.
FAMILIES = {
    "Bert": "bert chinese_clip distilbert electra ernie nomic_bert",
    "Blenderbot": "blenderbot",
    "CLIP": "clip",
    "Camembert": "camembert",
    "Cohere": "cohere cohere2",
    "Deberta": "deberta",
    "DebertaV2": "deberta-v2",
    "GPT2": "codegen gpt2 gpt_neo gptj opt phi starcoder2",
    "GPTNeoX": "gpt_neox mpt olmo olmoe",
    "Gemma": "gemma gemma2 gemma3_text",
    "MBart": "mbart",
    "MPNet": "mpnet",
    "OpenAIGPT": "openai-gpt",
    "Qwen2": "qwen2 qwen2_moe qwen3 qwen3_moe",
    "Roberta": "bart data2vec-text longformer roberta",
    "T5": "mt5 t5",
    "Whisper": "whisper",
    "XGLM": "xglm",
    "XLMRoberta": "xlm-roberta",
    "XLNet": "xlnet",
}
REGISTERED = {
    family: f"{name}Tokenizer" for name, families in FAMILIES.items() for family in families.split()
}
# Those for which the library takes no class but the plain one.
PLAIN_FAMILIES = {
    *(
        "ernie4_5",
        "glm",
        "glm4",
        "glm4_moe",
        "gpt_bigcode",
        "granite",
        "granitemoe",
        "hyperclovax",
        "mistral",
    ),
    *("mixtral", "modernbert", "nemotron", "olmo2", "olmo3", "phi3", "phimoe", "stablelm", "umt5"),
    "xlm-roberta-xl",
}
# Those whose checkpoints name another class than the one that the library takes for them.
MISNAMED = {"qwen2"}


def tokenizer_class(settings: Mapping[str, Any], config: Mapping[str, Any], is_byte_level: bool) -> str:
    """The class that AutoTokenizer takes, by tokenizer_config.json and config.json; PLAIN for any other.

    `is_byte_level` says that tokenizer.json cuts texts into bytes, as Llama 3's: LlamaTokenizer does not.
    """
    named = settings.get("tokenizer_class") or config.get("tokenizer_class")
    family = str(config.get("model_type"))
    registered = PLAIN if family in PLAIN_FAMILIES else REGISTERED.get(family)
    named = named.removesuffix("Fast") if isinstance(named, str) else None
    if named == LLAMA and is_byte_level and family not in MISNAMED:
        return PLAIN
    if named is None or (registered is not None and family in MISNAMED):
        named = registered
    elif registered == PLAIN:
        return PLAIN
    return named if named in OF_CLASS else PLAIN
