"""ViT-MSN (Assran et al. 2022): a ViT without a pooler."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "image-feature-extraction": ("ViTMSNModel",),
    "image-classification": ("ViTMSNForImageClassification",),
}
NAMING = Naming("vit.")
# config.json may omit what the library's configuration has.
DEFAULTS = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(layer_norm_eps=1e-6, **DEFAULTS)
    return replace(vit.image_spec(config, task, names, tokens=1), pooler=False)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return Table(vit.stack_rules() | {"head.*": "classifier.*"}, NAMING, ("embeddings.mask_token",))
