"""Table Transformer (Smock et al. 2022): DETR whose norms precede sublayers."""

from txexport.families import detr
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {"object-detection": ("TableTransformerForObjectDetection",)}
NAMING = detr.NAMING
REFUSED = {
    "TableTransformerModel": "its queries are no result; expected TableTransformerForObjectDetection",
}
ALIASES, LIBRARY_NAMES = detr.ALIASES, detr.LIBRARY_NAMES
spelt_out, table = detr.spelt_out, detr.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return detr.detector(config, pre_norm=True)
