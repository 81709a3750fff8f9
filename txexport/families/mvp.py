"""MVP (Tang et al. 2023): BART, trained further on many tasks; without the prompts of lightweight tuning."""

from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec

TASKS = {
    "text2text-generation": ("MvpForConditionalGeneration", "MvpModel"),
    "text-classification": ("MvpForSequenceClassification",),
    "question-answering": ("MvpForQuestionAnswering",),
}

NAMING = bart.NAMING
ALIASES = bart.ALIASES
table = bart.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_prompt=False)
    return bart.spec(config, task, names)
