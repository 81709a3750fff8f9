"""mT5 (Xue et al. 2021): multilingual T5 v1.1."""

from txexport.families import t5
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec, EncoderSpec

TASKS = t5.tasks("MT5")

NAMING = t5.NAMING
ALIASES = t5.ALIASES
table = t5.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(feed_forward_proj="gated-gelu", decoder_start_token_id=0)
    return t5.model_spec(config, task, names, first=False)
