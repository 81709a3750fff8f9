"""Which class of transformers 5 reads a checkpoint's tokenizer."""

from collections.abc import Mapping
from typing import Any

GENERIC = "TokenizersBackend"  # reads tokenizer.json as it is
LLAMA = "LlamaTokenizer"
# The class of a model type, where tokenizer_config.json names none or another; the others have none.
OF_MODEL = {
    "albert": "AlbertTokenizer",
    "bart": "RobertaTokenizer",
    "bert": "BertTokenizer",
    "bert-generation": "BertGenerationTokenizer",
    "big_bird": "BigBirdTokenizer",
    "biogpt": "BioGptTokenizer",
    "blenderbot": "BlenderbotTokenizer",
    "blenderbot-small": "BlenderbotSmallTokenizer",
    "camembert": "CamembertTokenizer",
    "chinese_clip": "BertTokenizer",
    "clip": "CLIPTokenizer",
    "codegen": "GPT2Tokenizer",
    "cohere": "CohereTokenizer",
    "cohere2": "CohereTokenizer",
    "data2vec-text": "RobertaTokenizer",
    "deberta": "DebertaTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "distilbert": "BertTokenizer",
    "dpr": "DPRQuestionEncoderTokenizer",
    "electra": "BertTokenizer",
    "ernie": "BertTokenizer",
    "ernie4_5": GENERIC,
    "esm": "EsmTokenizer",
    "gemma": "GemmaTokenizer",
    "gemma2": "GemmaTokenizer",
    "gemma3_text": "GemmaTokenizer",
    "glm": GENERIC,
    "glm4": GENERIC,
    "glm4_moe": GENERIC,
    "gpt2": "GPT2Tokenizer",
    "gpt_bigcode": GENERIC,
    "gpt_neo": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "gptj": "GPT2Tokenizer",
    "granite": GENERIC,
    "granitemoe": GENERIC,
    "gte": "XLMRobertaTokenizer",
    "hyperclovax": GENERIC,
    "jina_embeddings_v3": "XLMRobertaTokenizer",
    "longformer": "RobertaTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
    "mbart": "MBartTokenizer",
    "megatron-bert": "BertTokenizer",
    "mistral": GENERIC,
    "mixtral": GENERIC,
    "modernbert": GENERIC,
    "modernbert-decoder": GENERIC,
    "mpnet": "MPNetTokenizer",
    "mpt": "GPTNeoXTokenizer",
    "mt5": "T5Tokenizer",
    "nemotron": GENERIC,
    "nomic_bert": "BertTokenizer",
    "olmo": "GPTNeoXTokenizer",
    "olmo2": GENERIC,
    "olmo3": GENERIC,
    "olmoe": "GPTNeoXTokenizer",
    "openai-gpt": "OpenAIGPTTokenizer",
    "opt": "GPT2Tokenizer",
    "pegasus": "PegasusTokenizer",
    "phi": "GPT2Tokenizer",
    "phi3": GENERIC,
    "phimoe": GENERIC,
    "plbart": "PLBartTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "qwen2_moe": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
    "qwen3_moe": "Qwen2Tokenizer",
    "rembert": "RemBertTokenizer",
    "roberta": "RobertaTokenizer",
    "roberta-prelayernorm": "RobertaTokenizer",
    "roformer": "RoFormerTokenizer",
    "siglip": "SiglipTokenizer",
    "stablelm": GENERIC,
    "starcoder2": "GPT2Tokenizer",
    "t5": "T5Tokenizer",
    "umt5": GENERIC,
    "whisper": "WhisperTokenizer",
    "xglm": "XGLMTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "xlm-roberta-xl": GENERIC,
    "xlnet": "XLNetTokenizer",
}
# Whose files name a wrong class, so that the model type's counts.
MISNAMED = {
    "ernie4_5",
    "hyperclovax",
    "modernbert",
    "modernbert-decoder",
    "nemotron",
    "phi3",
    "phimoe",
    "qwen2",
}
# Other names of a class.
SAME = {
    "BartTokenizer": "RobertaTokenizer",
    "DistilBertTokenizer": "BertTokenizer",
    "ElectraTokenizer": "BertTokenizer",
    "LEDTokenizer": "RobertaTokenizer",
    "LayoutLMTokenizer": "BertTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "LxmertTokenizer": "BertTokenizer",
    "MobileBertTokenizer": "BertTokenizer",
    "MvpTokenizer": "RobertaTokenizer",
    "Phi3Tokenizer": "LlamaTokenizer",
    "SqueezeBertTokenizer": "BertTokenizer",
}
# Those that transformers has beside the ones that are built here; any other name stands for GENERIC.
OTHERS = """Barthez Bartpho BertGeneration BertJapanese Bertweet BioGpt BlenderbotSmall ByT5 CTRL Canine Clvp
CpmAnt Cpm Dia Esm Esmc FNet FSMT FastSpeech2Conformer Flaubert Funnel GPTNeoXJapanese GPTSw3 Lasr LayoutLMv2
LayoutLMv3 LayoutXLM Luke M2M100 MLuke Marian MarkupLM Mgpstr MyT5 Nougat PLBart Parakeet Perceiver Phobert
Pop2Piano ProphetNet Qwen3_5 Rag Reformer RoCBert RoFormer SeamlessM4T Siglip2 Siglip Speech2Text SpeechT5
Splinter Tapas Tipsv2 Udop VideoPrism Vits Wav2Vec2CTC Wav2Vec2PhonemeCTC XLM"""


def class_of(settings: Mapping[str, Any], config: Mapping[str, Any], byte_level: bool) -> str | None:
    """The class's name without "Fast", by the rules of AutoTokenizer; None of one that is not built here.

    `settings` are those of tokenizer_config.json, `config` those of config.json; `byte_level` says whether
    tokenizer.json names that kind of bytes, which LlamaTokenizer does not read.
    """
    named = settings.get("tokenizer_class") or config.get("tokenizer_class")
    model = str(config.get("model_type"))
    own = OF_MODEL.get(model)
    chosen = named.removesuffix("Fast") if isinstance(named, str) else own or GENERIC
    code = settings.get("auto_map")  # of its own, which is never run, but has the named class read the files
    if not (code.get("AutoTokenizer") if isinstance(code, dict) else code):
        if chosen == LLAMA and byte_level and model not in MISNAMED:
            return GENERIC
        if own is not None and chosen != own and (own == GENERIC or model in MISNAMED):
            chosen = own
    chosen = SAME.get(chosen, chosen)
    return None if chosen.removesuffix("Tokenizer") in OTHERS.split() else chosen
