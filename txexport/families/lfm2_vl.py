"""LFM2-VL (Amini et al. 2025): SigLIP 2's patches of images of any shape, among the tokens of LFM2."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _pictured, lfm2, siglip, siglip2
from txexport.families._config import Config, TensorNames
from txexport.spec import ConnectorSpec, NormSpec, SignalStackSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("Lfm2VlForConditionalGeneration",)}

NAMING = _pictured.NAMING
DECODERS = {"lfm2": lfm2}
TEXT = "lfm2"  # the decoder where text_config names none
EPSILON = 1e-5  # of the connector's norm


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    config = _with_one_tie(config)
    vision, (_, text) = tower(config), _pictured.decoder(config, names, TEXT, True, DECODERS)
    merged = config.count("downsample_factor", 2)
    normed = config.flag("projector_use_layernorm", True)
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size,
        size=text.decoder.hidden_size,
        grid=None,
        intermediate_size=config.integer("projector_hidden_size", 2560),
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=config.flag("projector_bias", True),
        merged=merged,
        norm=NormSpec(vision.hidden_size * merged**2, EPSILON) if normed else None,
    )
    token = config.integer("image_token_id", 396)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token)


def tower(config: Config) -> SignalStackSpec:
    """The image encoder, with the norm after its layers."""
    config.table("vision_config").expect(model_type="siglip2_vision_model")
    vision = siglip.vision_config(config.table("vision_config")).with_defaults(num_patches=256)
    return siglip2.vision_stack(vision)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _pictured.decoder(_with_one_tie(config), names, TEXT, True, DECODERS)
    rules, drop = _pictured.decoder_rules(family, text, _pictured.TEXT)
    images, unused = _pictured.tower_rules(tower(config), _pictured.TOWER)
    return Table(rules | images | CONNECTOR, NAMING, (*drop, *unused))


def _with_one_tie(config: Config) -> Config:
    """The settings where config.json alone ties the head, by the name that transformers prefers."""
    text = {name: value for name, value in config.table("text_config").values.items() if name not in TIES}
    stated = config.values.get("tie_embedding", config.values.get("tie_word_embeddings", True))
    return config.replaced(text_config=text, tie_word_embeddings=stated)


TIES = ("tie_embedding", "tie_word_embeddings")
CONNECTOR: Rules = {
    "connector.norm.*": "multi_modal_projector.layer_norm.*",
    "connector.up.*": "multi_modal_projector.linear_1.*",
    "connector.down.*": "multi_modal_projector.linear_2.*",
}
