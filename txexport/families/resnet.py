"""ResNet (He et al. 2016): convolutions in residual stages."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import detr
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    EncoderSpec,
    HeadKind,
    HeadSpec,
    MapStackSpec,
    Pick,
    ResNetMapsSpec,
    VectorSpec,
)
from txexport.spec.resnet import STEM_STRIDE

TASKS = {
    "image-feature-extraction": ("ResNetModel",),
    "image-classification": ("ResNetForImageClassification",),
}
NAMING = Naming("resnet.")
REFUSED = {"ResNetBackbone": "it returns maps for another model; expected ResNetModel"}

SIDE = 224  # of an image, in reports


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    network = detr.resnet(config, 1)
    side = max(SIDE, STEM_STRIDE * 2 ** len(network.depths))
    stack = MapStackSpec(
        ResNetMapsSpec(
            network.depths,
            network.sizes,
            network.stem,
            network.bottleneck,
            network.eps,
            network.channels,
            (side, side),
        )
    )
    pick = Pick.GLOBAL_AVERAGE
    if task == "image-feature-extraction":
        return EncoderSpec(stack, HeadSpec(HeadKind.LAST_MAP), vector=VectorSpec(pick))
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=config.labels(), pick=pick)
    return EncoderSpec(stack, head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec.encoder, MapStackSpec)
    embedding = spec.encoder.embedding
    assert isinstance(embedding, ResNetMapsSpec)
    rules, number = _normalised("stem", "embedder.embedder"), 0
    for stage, depth in enumerate(embedding.depths):
        for layer in range(depth):
            ours, theirs = f"layers.{number}", f"encoder.stages.{stage}.layers.{layer}"
            for part in range(3 if embedding.bottleneck else 2):
                rules |= _normalised(f"{ours}.parts.{part}", f"{theirs}.layer.{part}")
            rules |= _normalised(f"{ours}.shortcut", f"{theirs}.shortcut")
            number += 1
    return Table(rules | {"head.*": "classifier.1.*"}, NAMING, ("*.num_batches_tracked", "classifier.*"))


def _normalised(ours: str, theirs: str) -> Rules:
    """A convolution and its norm."""
    place = f"encoder.embedding.{ours}"
    rules: Rules = {f"{place}.convolution.weight": f"{theirs}.convolution.weight"}
    for name, stored in detr.STATISTICS.items():
        rules[f"{place}.norm.{name}"] = f"{theirs}.normalization.{stored}"
    return rules
