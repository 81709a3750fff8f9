"""InternVL (Chen et al. 2024): tiles of images, read by a ViT with LayerScale, among a decoder's tokens."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _pictured, vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    ConnectorSpec,
    NormKind,
    NormSpec,
    PatchSpec,
    SignalStackSpec,
    VisionLanguageSpec,
)

TASKS = {"image-text-to-text": ("InternVLForConditionalGeneration",)}

NAMING = _pictured.NAMING
DEFAULTS = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "image_size": 448,
    "patch_size": 14,
    "layer_norm_eps": 1e-6,
}
EPSILON = 1e-5  # of the connector's norm
RMS_EPSILON = 1e-6  # of the norms of queries and keys


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    vision, (_, text) = tower(config, names), _pictured.decoder(config, names, "qwen2", ties=True)
    patches, width, wide = vision.embedding, text.decoder.hidden_size, vision.hidden_size
    assert isinstance(patches, PatchSpec)
    ratio = config.number("downsample_ratio", 0.5)
    merged = round(1 / ratio) if ratio > 0 else 0
    if merged < 1 or merged * ratio != 1:
        raise UnsupportedError(f"{config.path}: downsample_ratio is {ratio}, expected 1 over a whole number")
    _pictured.check_merged(config, "downsample_ratio", merged, patches.grid)
    connector = ConnectorSpec(
        hidden_size=wide,
        size=width,
        grid=patches.grid,
        intermediate_size=width,
        activation=config.activation("projector_hidden_act", "gelu"),
        skipped=_pictured.skipped(config, vision),
        merged=merged,
        norm=NormSpec(wide * merged**2, EPSILON),
    )
    token = config.integer("image_token_id", 151667)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token)


def tower(config: Config, names: TensorNames) -> SignalStackSpec:
    """The image encoder up to vision_feature_layer."""
    vision = config.table("vision_config").with_defaults(**DEFAULTS)
    vision.expect(use_absolute_position_embeddings=True, norm_type="layer_norm", use_mean_pooling=True)
    bias = vision.flag("attention_bias", False)
    base = vit.image_spec(vision.replaced(qkv_bias=bias), "image-feature-extraction", names, tokens=1)
    stack = base.encoder
    assert isinstance(stack, SignalStackSpec)
    attention = replace(stack.blocks[0].dense, output_bias=True)
    if vision.flag("use_qk_norm", False):
        norm = NormSpec(attention.head_dim, RMS_EPSILON, NormKind.RMS)
        attention = replace(attention, head_norm=norm, joint_norm=True)
    block = replace(stack.blocks[0], attention=attention, layer_scale=True)
    return _pictured.up_to(config, replace(stack, blocks=(block,), final_norm=None), -1)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _pictured.decoder(config, names, "qwen2", ties=True)
    rules, drop = _pictured.decoder_rules(family, text, _pictured.TEXT)
    layers = range(tower(config, names).num_layers, _pictured.MOST_LAYERS)
    later = (f"{_pictured.TOWER}encoder.layer.{layer}.*" for layer in layers)
    unused = f"{_pictured.TOWER}embeddings.mask_token"
    return Table(rules | _tower_rules() | CONNECTOR, NAMING, (*drop, *later, unused))


def _tower_rules() -> Rules:
    layer, source = "vision.layers.{i}", f"{_pictured.TOWER}encoder.layer.{{i}}"
    prefix = f"{_pictured.TOWER}embeddings"
    return {
        "vision.embedding.tokens.0.weight": Take(f"{prefix}.cls_token", leading_axis=True),
        "vision.embedding.position.weight": Take(f"{prefix}.position_embeddings", leading_axis=True),
        "vision.embedding.project.*": f"{prefix}.patch_embeddings.projection.*",
        f"{layer}.attention.q.*": f"{source}.attention.q_proj.*",
        f"{layer}.attention.k.*": f"{source}.attention.k_proj.*",
        f"{layer}.attention.v.*": f"{source}.attention.v_proj.*",
        f"{layer}.attention.o.*": f"{source}.attention.projection_layer.*",
        f"{layer}.attention.q_norm.*": f"{source}.attention.q_norm.*",
        f"{layer}.attention.k_norm.*": f"{source}.attention.k_norm.*",
        f"{layer}.attention_norm.*": f"{source}.layernorm_before.*",
        f"{layer}.attention_scale.weight": f"{source}.lambda_1",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layernorm_after.*",
        f"{layer}.feed_forward_scale.weight": f"{source}.lambda_2",
    }


CONNECTOR: Rules = {
    "connector.norm.*": "multi_modal_projector.layer_norm.*",
    "connector.up.*": "multi_modal_projector.linear_1.*",
    "connector.down.*": "multi_modal_projector.linear_2.*",
}
