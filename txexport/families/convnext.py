"""ConvNeXt (Liu et al. 2022): depthwise convolutions and networks, in stages."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError
from txexport.families import vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    ConvNextSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    MapStackSpec,
    NormSpec,
    Pick,
    VectorSpec,
)

TASKS = {
    "image-feature-extraction": ("ConvNextModel",),
    "image-classification": ("ConvNextForImageClassification",),
}
NAMING = Naming("convnext.")
REFUSED = {"ConvNextBackbone": "it returns maps for another model; expected ConvNextModel"}
ALIASES = {"num_hidden_layers": "num_stages"}

NETWORK = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768], "patch_size": 4}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    scaled = config.number("layer_scale_init_value", 1e-6) > 0
    return classifier(config, task, network(config, scaled=scaled, responses=False))


def network(config: Config, scaled: bool, responses: bool) -> ConvNextSpec:
    """The network that config.json describes."""
    config = config.with_defaults(**NETWORK)
    depths, sizes = config.integers("depths"), config.integers("hidden_sizes")
    stages = config.integer("num_stages", 4)
    if not len(depths) == len(sizes) == stages <= 8 or sum(depths) > config.room.count:
        raise CheckpointError(
            f"{config.path}: num_stages is {stages}, depths {shortened(depths)} and hidden_sizes "
            f"{shortened(sizes)}; expected as many numbers as stages, and as many layers as there are "
            "tensors for"
        )
    return ConvNextSpec(
        tuple(depths),
        tuple(sizes),
        vit.patch_size(config),
        config.activation("hidden_act", "gelu"),
        scaled,
        responses,
        config.integer("num_channels", 3),
        vit.image_size(config),
    )


def classifier(config: Config, task: str, embedding: ConvNextSpec) -> EncoderSpec:
    """The mean of the last map, normalised, beside that map or under a classifier."""
    norm = NormSpec(embedding.hidden_size, config.number("layer_norm_eps", 1e-12))
    stack, pick = MapStackSpec(embedding), Pick.GLOBAL_AVERAGE
    if task == "image-feature-extraction":
        return EncoderSpec(stack, HeadSpec(HeadKind.LAST_MAP), vector=VectorSpec(pick, norm=norm))
    labels = config.labels()
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, norm=norm, labels=labels, pick=pick)
    return EncoderSpec(stack, head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return Table(network_rules(spec) | head_rules(spec), NAMING, ("classifier.*",))


def network_rules(spec: EncoderSpec) -> Rules:
    """The patches, and every layer of every stage."""
    rules: Rules = {
        "encoder.embedding.project.*": "embeddings.patch_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.layernorm.*",
    }
    assert isinstance(spec.encoder, MapStackSpec)
    layer = 0
    for stage, depth in enumerate(spec.encoder.embedding.depths):
        theirs = f"encoder.stages.{stage}"
        if stage:
            ours = f"encoder.embedding.mergings.{stage - 1}"
            rules[f"{ours}.norm.*"] = f"{theirs}.downsampling_layer.0.*"
            rules[f"{ours}.project.*"] = f"{theirs}.downsampling_layer.1.*"
        for number in range(depth):
            rules |= layer_rules(f"encoder.embedding.layers.{layer}", f"{theirs}.layers.{number}")
            layer += 1
    return rules


def layer_rules(layer: str, source: str) -> Rules:
    """One layer."""
    return {
        f"{layer}.convolution.*": f"{source}.dwconv.*",
        f"{layer}.norm.*": f"{source}.layernorm.*",
        f"{layer}.up.*": f"{source}.pwconv1.*",
        f"{layer}.down.*": f"{source}.pwconv2.*",
        f"{layer}.scale": f"{source}.layer_scale_parameter",
    }


def head_rules(spec: EncoderSpec) -> Rules:
    """The norm of the mean, which is the vector's or the classifier's, and the scores."""
    if spec.vector is not None:
        return {"vector.norm.*": "layernorm.*"}
    return {"head.norm.*": "layernorm.*", "head.*": "classifier.*"}
