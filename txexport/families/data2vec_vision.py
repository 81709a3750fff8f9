"""data2vec for images (Baevski et al. 2022): BEiT's architecture."""

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import beit
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "image-feature-extraction": ("Data2VecVisionModel",),
    "image-classification": ("Data2VecVisionForImageClassification",),
}
NAMING = Naming("data2vec_vision.")
REFUSED = {"Data2VecVisionForSemanticSegmentation": beit.REFUSED["BeitForSemanticSegmentation"]}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return beit.spec(config, task, names)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    inherited = beit.table(spec)
    return Table(inherited.rules, NAMING, inherited.drop)
