"""Mistral Small 3.1 and 3.2, Ministral 3 (Mistral AI 2025): Pixtral's patches in squares, among tokens."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _pictured, llava, ministral3, mistral4
from txexport.families._config import Config, TensorNames
from txexport.spec import ConnectorSpec, NormKind, NormSpec, PatchMergerSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("Mistral3ForConditionalGeneration",)}

NAMING = _pictured.NAMING
ALIASES = {"image_token_id": "image_token_index"}
TEXT = "mistral"  # the decoder where text_config names none
DECODERS = {**_pictured.DECODERS, "ministral3": ministral3, "mistral4": mistral4}
# What a missing part means.
WITHOUT_TEXT = {
    "model_type": "mistral",
    "head_dim": 128,
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 40,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e9,
    "sliding_window": None,
    "vocab_size": 131072,
}
WITHOUT_VISION = {"model_type": "pixtral", "image_size": 1540, "patch_size": 14}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    config = _with_parts(config)
    vision, (_, text) = (
        _pictured.tower(config, -1, _pictured.PIXTRAL),
        _pictured.decoder(config, names, TEXT, ties=True, known=DECODERS),
    )
    assert text.decoder.final_norm is not None
    norm = NormSpec(vision.hidden_size, text.decoder.final_norm.eps, NormKind.RMS)
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size,
        size=text.decoder.hidden_size,
        grid=None,
        intermediate_size=text.decoder.hidden_size,
        activation=config.activation("projector_hidden_act", "gelu"),
        bias=config.flag("multimodal_projector_bias", False),
    )
    merger = PatchMergerSpec(vision.hidden_size, config.count("spatial_merge_size", 2), norm)
    token = config.integer("image_token_index", 10)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token, merger=merger)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    config = _with_parts(config)
    family, text = _pictured.decoder(config, names, TEXT, ties=True, known=DECODERS)
    table = llava.table_over(_pictured.tower(config, -1, _pictured.PIXTRAL), family, text)
    return replace(table, rules=table.rules | MERGER)


def _with_parts(config: Config) -> Config:
    """The settings with the parts that config.json leaves out."""
    config = config.with_defaults(text_config=WITHOUT_TEXT, vision_config=WITHOUT_VISION)
    vision = config.table("vision_config").with_defaults(model_type="pixtral")
    return config.replaced(vision_config=vision.values)


MERGER: Rules = {
    "merger.norm.*": "multi_modal_projector.norm.*",
    "merger.project.*": "multi_modal_projector.patch_merger.merging_layer.*",
}
