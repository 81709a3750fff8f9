"""LLaVA 1.5 (Liu et al. 2023): CLIP's patches, projected by two layers, among the tokens of a decoder."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _pictured
from txexport.families._config import Config, TensorNames
from txexport.spec import ConnectorSpec, PatchSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("LlavaForConditionalGeneration",)}

NAMING = _pictured.NAMING
ALIASES = {"image_token_id": "image_token_index"}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    vision, (_, text) = _pictured.tower(config), _pictured.decoder(config, names)
    patches, width = vision.embedding, text.decoder.hidden_size
    assert isinstance(patches, PatchSpec)
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size,
        size=width,
        grid=patches.grid,
        intermediate_size=width,
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=config.flag("multimodal_projector_bias", True),
        skipped=_pictured.skipped(config, vision),
    )
    token = config.integer("image_token_index", 32000)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _pictured.decoder(config, names)
    rules, drop = _pictured.decoder_rules(family, text, _pictured.TEXT)
    images, later = _pictured.tower_rules(_pictured.tower(config), _pictured.TOWER)
    rules |= images | CONNECTOR
    return Table(rules, NAMING, (*drop, *later))


CONNECTOR: Rules = {
    "connector.up.*": "multi_modal_projector.linear_1.*",
    "connector.down.*": "multi_modal_projector.linear_2.*",
}
