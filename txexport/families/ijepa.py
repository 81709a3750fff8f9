"""I-JEPA (Assran et al. 2023): a ViT of patches alone; its scores are of their mean."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import vit, vit_msn
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, HeadKind, Pick

TASKS = {
    "image-feature-extraction": ("IJepaModel",),
    "image-classification": ("IJepaForImageClassification",),
}
NAMING = Naming("ijepa.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    base = vit.image_spec(config.with_defaults(**vit_msn.DEFAULTS), task, names, tokens=0)
    head = base.head
    if head.kind == HeadKind.SEQUENCE:
        head = replace(head, pick=Pick.GLOBAL_AVERAGE)
    return replace(base, head=head, pooler=False)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    drop = ("embeddings.mask_token", "pooler.*", "classifier.*")
    return Table(vit.stack_rules() | {"head.*": "classifier.*"}, NAMING, drop)
