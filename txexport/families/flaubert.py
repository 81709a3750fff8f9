"""FlauBERT (Le et al. 2020): XLM for French."""

from txexport.families import xlm
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "feature-extraction": ("FlaubertModel",),
    "fill-mask": ("FlaubertWithLMHeadModel",),
    "text-classification": ("FlaubertForSequenceClassification",),
    "token-classification": ("FlaubertForTokenClassification",),
    "question-answering": ("FlaubertForQuestionAnsweringSimple",),
}
REFUSED = {
    "FlaubertForQuestionAnswering": xlm.REFUSED["XLMForQuestionAnswering"],
    "FlaubertForMultipleChoice": xlm.REFUSED["XLMForMultipleChoice"],
}

NAMING, ALIASES, table = xlm.NAMING, xlm.ALIASES, xlm.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; transformers itself fails with pre-norm layers."""
    config.expect(pre_norm=False)
    return xlm.spec(config, task, names)
