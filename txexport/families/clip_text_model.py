"""CLIP's text encoder (Radford et al. 2021, 2.4), as image generators use it."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import clip
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, VectorSpec

TASKS = {"feature-extraction": ("CLIPTextModel", "CLIPTextModelWithProjection")}
ORIGINALS = ("CLIPTextModelWithProjection",)

NAMING = Naming("text_model.")
PROJECTION = "text_projection.weight"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; the checkpoint shows whether there is a projection."""
    pick, mark = clip.ending(config)
    projected = PROJECTION in names
    size = config.integer("projection_dim", 512) if projected else None
    vector = VectorSpec(pick, mark, size=size, compared=projected)
    return EncoderSpec(encoder=clip.text_stack(config), vector=vector)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = clip.text_rules("encoder", "") | {"vector.project.weight": PROJECTION}
    return Table(rules, NAMING, drop=("embeddings.position_ids",))
