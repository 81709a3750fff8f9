"""Text encoder-decoder from two pretrained models (Rothe et al. 2020), with cross-attention added."""

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
    """Map parameters to the tensor names of transformers."""
    return _parts.table_of(config, READ, names)
