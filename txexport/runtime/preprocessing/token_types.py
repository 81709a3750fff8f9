"""The choice of transformers 5: is a model told which tokens are of a pair's second text?"""

from collections.abc import Mapping
from typing import Any

from txexport.contracts.names import TOKEN_TYPE_IDS
from txexport.errors import BundleError

# Tokenizers of transformers 5 that give them where tokenizer_config.json does not say; most of BERT's make.
GIVING = {
    "BertTokenizer",
    "ConvBertTokenizer",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "DPRQuestionEncoderTokenizer",
    "ElectraTokenizer",
    "LayoutLMTokenizer",
    "LxmertTokenizer",
    "MobileBertTokenizer",
    "SqueezeBertTokenizer",
}
GIVING_MODELS = (  # whose own tokenizer is one; ours, "txexport", has no other judge
    "bert",
    "chinese_clip",
    "deberta",
    "deberta-v2",
    "distilbert",
    "dpr",
    "electra",
    "ernie",
    "megatron-bert",
    "nomic_bert",
    "txexport",
)


def gives_types(settings: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Decide by the tokenizer's `model_input_names`, or its class's, or that of the model in `config`.

    Without them every token counts as one of the first text. Raises BundleError for names that are no list.
    """
    names = settings.get("model_input_names")
    if names is not None:
        if not isinstance(names, list):
            raise BundleError(
                f"tokenizer_config.json: model_input_names is a {type(names).__name__}, expected a list"
            )
        return TOKEN_TYPE_IDS in names
    kind = settings.get("tokenizer_class") or config.get("tokenizer_class")
    if isinstance(kind, str):
        return kind.removesuffix("Fast") in GIVING
    return config.get("model_type") in GIVING_MODELS
