"""Image-to-text from two pretrained models (Li et al. 2021): an image encoder and a text decoder."""

from txexport.checkpoints.weight_map import Table
from txexport.families import _parts
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderDecoderSpec

TASKS = {"image-to-text": ("VisionEncoderDecoderModel",)}

NAMING = _parts.NAMING
SEEN = "image-feature-extraction"


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    return _parts.spec(config, SEEN, names)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    return _parts.table_of(config, SEEN, names)
