"""mT5 (Xue et al. 2021): T5 v1.1 in a hundred languages."""

from txexport.families import t5
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, EncoderSpec

TASKS = {
    "text2text-generation": ("MT5ForConditionalGeneration",),
    "feature-extraction": ("MT5EncoderModel",),
}

NAMING = t5.NAMING
ALIASES = t5.ALIASES
table = t5.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(feed_forward_proj="gated-gelu")
    if task == "feature-extraction":
        return t5.encoder_spec(config)
    return t5.encoder_decoder_spec(config, names, first=False)
