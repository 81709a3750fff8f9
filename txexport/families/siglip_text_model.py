"""SigLIP's text encoder (Zhai et al. 2023); its vector is that of the last position, padding or not."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import clip, siglip
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, Pick, VectorSpec

TASKS = {"feature-extraction": ("SiglipTextModel",)}
ORIGINALS = ("SiglipTextModel",)

NAMING = Naming("text_model.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    text = siglip.text_config(config)
    vector = VectorSpec(Pick.FINAL, size=siglip.text_size(text), bias=True)
    return EncoderSpec(encoder=siglip.text_stack(text), vector=vector)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = clip.text_rules("encoder", "") | {"vector.project.*": "head.*"}
    return Table(rules, NAMING, drop=("embeddings.position_ids",))
