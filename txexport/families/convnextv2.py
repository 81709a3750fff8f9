"""ConvNeXt V2 (Woo et al. 2023): ConvNeXt with channels normalised by their responses."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import convnext
from txexport.families._config import Config, TensorNames
from txexport.spec import ConvNextSpec, EncoderSpec, MapStackSpec

TASKS = {
    "image-feature-extraction": ("ConvNextV2Model",),
    "image-classification": ("ConvNextV2ForImageClassification",),
}
NAMING = Naming("convnextv2.")
REFUSED = {"ConvNextV2Backbone": "it returns maps for another model; expected ConvNextV2Model"}
ALIASES = convnext.ALIASES


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return convnext.classifier(config, task, convnext.network(config, scaled=False, responses=True))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec.encoder, MapStackSpec)
    assert isinstance(spec.encoder.embedding, ConvNextSpec)
    rules = convnext.network_rules(spec) | convnext.head_rules(spec)
    return Table(rules | response_rules(spec.encoder.embedding), NAMING, ("classifier.*",))


def response_rules(embedding: ConvNextSpec) -> Rules:
    """The scale and the shift of the responses of every layer."""
    rules: Rules = {}
    layer = 0
    for stage, depth in enumerate(embedding.depths):
        for number in range(depth):
            for name in ("weight", "bias"):
                source = f"encoder.stages.{stage}.layers.{number}.grn.{name}"
                rules[f"encoder.embedding.layers.{layer}.responses.{name}"] = Take(source, leading_axis=True)
            layer += 1
    return rules
