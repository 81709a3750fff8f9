"""ViT-MAE's encoder (He et al. 2022), which reads every patch, in the image's order."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import vit, vit_msn
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {"image-feature-extraction": ("ViTMAEModel", "ViTMAEForPreTraining")}
NAMING = Naming("vit.")
SHUFFLES = True  # the original orders patches by random numbers, unless it is given others
NOTE = (
    "no patch is left out: the original leaves out a share of them, mask_ratio, in each call, and puts the "
    "others in a random order. It is compared with transformers at mask_ratio 0, in the image's order"
)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**vit_msn.DEFAULTS)
    return replace(vit.image_spec(config, task, names, tokens=1), pooler=False)


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str]:
    """config.json without masking."""
    return dict(config.values) | {"mask_ratio": 0.0}, NOTE


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, without those of the decoder."""
    return Table(vit.stack_rules(), NAMING, ("decoder.*", "mask_token"))
