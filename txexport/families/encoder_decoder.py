"""Two models of texts as one (Rothe et al. 2020): an encoder, and a decoder with cross attention added."""

from txexport.checkpoints.weight_map import Table
from txexport.families import _parts
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec

TASKS = {"text2text-generation": ("EncoderDecoderModel",)}

NAMING = _parts.NAMING
READ = "feature-extraction"


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    return _parts.spec(config, READ, names)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Where transformers keeps each parameter."""
    return _parts.table_of(config, READ, names)
