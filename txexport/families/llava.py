"""LLaVA 1.5 (Liu et al. 2023): CLIP's patches, projected by two layers, among the tokens of a decoder.

Pixtral (Agrawal et al. 2024) is published as LLaVA over its own image encoder, of images of any size.
"""

from types import ModuleType

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _pictured, _pixtral
from txexport.families._config import Config, TensorNames
from txexport.spec import ConnectorSpec, DecoderSpec, PatchSpec, SignalStackSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("LlavaForConditionalGeneration",)}

NAMING = _pictured.NAMING
TOWERS = {**_pictured.TOWERS, **_pictured.PIXTRAL}
ALIASES = {"image_token_id": "image_token_index"}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    vision, (_, text) = _pictured.tower(config, known=TOWERS), _pictured.decoder(config, names)
    patches, width = vision.embedding, text.decoder.hidden_size
    assert isinstance(patches, PatchSpec)
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size,
        size=width,
        grid=None if patches.any_size else patches.grid,
        intermediate_size=width,
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=config.flag("multimodal_projector_bias", True),
        skipped=_pictured.skipped(config, vision),
    )
    token = config.integer("image_token_index", 32000)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    return table_over(_pictured.tower(config, known=TOWERS), *_pictured.decoder(config, names))


def table_over(vision: SignalStackSpec, family: ModuleType, text: DecoderSpec) -> Table:
    """The tensor names of transformers, of an image encoder and a decoder of `family`."""
    rules, drop = _pictured.decoder_rules(family, text, _pictured.TEXT)
    if vision.patches is not None and vision.patches.any_size:
        later = range(vision.num_layers, _pictured.MOST_LAYERS)
        images, unused = _pixtral.rules(_pictured.TOWER), _pixtral.later_layers(_pictured.TOWER, later)
    else:
        images, unused = _pictured.tower_rules(vision, _pictured.TOWER)
    return Table(rules | images | CONNECTOR, NAMING, (*drop, *unused))


CONNECTOR: Rules = {
    "connector.up.*": "multi_modal_projector.linear_1.*",
    "connector.down.*": "multi_modal_projector.linear_2.*",
}
