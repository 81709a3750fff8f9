"""data2vec for images (Baevski et al. 2022): BEiT's architecture."""

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import beit
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, PyramidSpec

TASKS = {
    "image-feature-extraction": ("Data2VecVisionModel",),
    "image-classification": ("Data2VecVisionForImageClassification",),
    "image-segmentation": ("Data2VecVisionForSemanticSegmentation",),
}
NAMING = Naming("data2vec_vision.")
# As PUBLISHED of BEiT: the library's own names, since no checkpoint was published with this head.
PARTS = ("psp_modules.blocks.{0}.conv", "psp_bottleneck", "convolution", "normalization")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    if task == "image-segmentation":
        config = config.with_defaults(out_indices=[3, 5, 7, 11])
    return beit.spec(config, task, names)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    inherited = beit.table(spec)
    rules = dict(inherited.rules)
    if isinstance(spec.head.segments, PyramidSpec):
        rules |= beit.pyramid_rules(spec.head.segments, PARTS)
    return Table(rules, NAMING, inherited.drop)
