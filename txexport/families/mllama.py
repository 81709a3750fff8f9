"""Llama 3.2 Vision (Meta 2024): tiles of images, which some layers of Llama's decoder attend to."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    CrossVisionLanguageSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    SourceAttentionSpec,
    TextStackSpec,
    TiledStackSpec,
    TilesSpec,
)

TASKS = {"image-text-to-text": ("MllamaForConditionalGeneration",)}

TEXT, TOWER = "language_model.", "vision_model."
NAMING = Naming("model.", parts={TEXT: Naming("model.")})
ALIASES = {"image_token_id": "image_token_index"}
SPECIAL = 8  # tokens that have an embedding and no score; the first is that of images
EPSILON = 1e-5  # of the norms before the layers and between local and global ones, in every checkpoint
# What config.json leaves out where it is the library's default.
TEXT_DEFAULTS = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
}
VISION_DEFAULTS = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_global_layers": 8,
    "attention_heads": 16,
    "num_channels": 3,
    "intermediate_size": 5120,
    "image_size": 448,
    "patch_size": 14,
    "norm_eps": 1e-5,
    "max_num_tiles": 4,
    "intermediate_layers_indices": [3, 7, 15, 23, 30],
}


def spec(config: Config, task: str, names: TensorNames) -> CrossVisionLanguageSpec:
    """The architecture that config.json describes."""
    vision, text = tower(config), _text_config(config)
    decoder = text_stack(text, vision.embedding.length)
    head = HeadSpec(HeadKind.CAUSAL_LM, tied=False)
    token = config.integer("image_token_index", 128256)
    return CrossVisionLanguageSpec(vision, decoder, head, token, text.integer("vocab_size"))


def _text_config(config: Config) -> Config:
    """The settings of the decoder. Raises UnsupportedError for those that no layer reads."""
    text = config.table("text_config").with_defaults(**TEXT_DEFAULTS)
    if text.values["cross_attention_layers"] is None:  # the library's own default
        text = text.replaced(cross_attention_layers=TEXT_DEFAULTS["cross_attention_layers"])
    head_dim = text.head_dim(text.integer("hidden_size"), text.integer("num_attention_heads"))
    text.expect(head_dim=head_dim)
    return text.replaced(head_dim=head_dim)


def text_stack(config: Config, vectors: int) -> TextStackSpec:
    """Llama's stack, in some layers of which tokens attend to images of that number of vectors."""
    stack = llama.stack_spec(config)
    embedding = replace(stack.embedding, vocab_size=stack.embedding.vocab_size + SPECIAL)
    layers = _layers(config, "cross_attention_layers", stack.num_layers)
    if not layers or len(set(layers)) == stack.num_layers:
        raise UnsupportedError(
            f"{config.path}: cross_attention_layers are {layers} of {stack.num_layers} layers, expected "
            "some of them"
        )

    def varied(number: int, block: BlockSpec) -> BlockSpec:
        if number not in layers:
            return block
        norm = NormSpec(block.dense.head_dim, block.norm.eps, NormKind.RMS)
        attention = replace(block.dense, causal=False, rotary=None, head_norm=norm)
        return replace(block, attention=SourceAttentionSpec(attention, vectors), gated=True)

    return _causal.each_layer(replace(stack, embedding=embedding), varied)


def _layers(config: Config, key: str, count: int) -> list[int]:
    """The numbers of layers that a setting lists. Raises CheckpointError for others than there are."""
    numbers = config.values[key]
    if not isinstance(numbers, list) or not all(type(one) is int and 0 <= one < count for one in numbers):
        raise CheckpointError(
            f"{config.path}: {key} is {shortened(numbers)}, expected numbers from 0 to {count - 1}"
        )
    return numbers


def tower(config: Config) -> TiledStackSpec:
    """The image encoder that vision_config describes."""
    vision = config.table("vision_config").renamed({"num_attention_heads": "attention_heads"})
    vision = vision.with_defaults(**VISION_DEFAULTS)
    width, heads = vision.integer("hidden_size"), vision.integer("attention_heads")
    tiles, ratios = vision.integer("max_num_tiles"), vision.values.get("supported_aspect_ratios")
    needed = sum(tiles // rows for rows in range(1, tiles + 1))
    count = needed if ratios is None else len(ratios) if isinstance(ratios, list) else 0
    if count < needed:
        raise UnsupportedError(
            f"{vision.path}: supported_aspect_ratios are {shortened(ratios)}, fewer than the {needed} of "
            f"images of up to {tiles} tiles"
        )
    embedding = TilesSpec(
        width,
        vision.integer("image_size"),
        vision.integer("patch_size"),
        tiles,
        count,
        NormSpec(width, EPSILON),
        vision.integer("num_channels"),
    )
    block = BlockSpec(
        AttentionSpec(
            width,
            heads,
            heads,
            vision.head_dim(width, heads),
            causal=False,
            bias=False,
            output_bias=False,
        ),
        FeedForwardSpec(width, vision.integer("intermediate_size"), vision.activation("hidden_act", "gelu")),
        NormSpec(width, vision.number("norm_eps")),
        NormPlacement.PRE,
    )
    local = vision.count("num_hidden_layers")
    stack = TiledStackSpec(
        embedding,
        block,
        local,
        replace(block, gated=True),
        vision.count("num_global_layers"),
        NormSpec(width, EPSILON),
        tuple(_layers(vision, "intermediate_layers_indices", local)),
    )
    vision.expect(vision_output_dim=stack.output_size)
    return stack


def table(spec: CrossVisionLanguageSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = "decoder.layers.{i}", f"{TEXT}layers.{{i}}"
    rules: Rules = {
        "decoder.embedding.word.weight": f"{TEXT}embed_tokens.weight",
        f"{layer}.attention_norm.*": f"{source}.input_layernorm.*",
        f"{layer}.attention_tanh_gate.weight": f"{source}.cross_attn_attn_gate",
        f"{layer}.feed_forward_norm.*": f"{source}.post_attention_layernorm.*",
        f"{layer}.feed_forward_tanh_gate.weight": f"{source}.cross_attn_mlp_gate",
        **{
            f"{layer}.feed_forward.{name}.*": f"{source}.mlp.{name}_proj.*" for name in ("up", "gate", "down")
        },
        "decoder.final_norm.*": f"{TEXT}norm.*",
        "head.weight": Take(f"{TEXT}lm_head.weight", fallback="lm_head.weight"),
        "projector.*": "multi_modal_projector.*",
    }
    for number, block in enumerate(spec.decoder.layers):
        kind = "cross_attn" if block.crosses else "self_attn"
        projections = f"{TEXT}layers.{number}.{kind}"
        for name in ("q", "k", "v", "o"):
            owner = "cross" if block.crosses and name in "kv" else "decoder.layers"
            place = f"{owner}.{number}" if owner == "cross" else f"{owner}.{number}.attention"
            rules[f"{place}.{name}.*"] = f"{projections}.{name}_proj.*"
        rules[f"decoder.layers.{number}.attention.q_norm.*"] = f"{projections}.q_norm.*"
        rules[f"cross.{number}.k_norm.*"] = f"{projections}.k_norm.*"
    return Table(rules | _vision_rules(spec.vision), NAMING)


def _vision_rules(stack: TiledStackSpec) -> Rules:
    """Tensor names of the image encoder."""
    place, positions = "vision.embedding", f"{TOWER}gated_positional_embedding"
    rules: Rules = {
        f"{place}.project.*": f"{TOWER}patch_embedding.*",
        f"{place}.before.weight": f"{TOWER}pre_tile_positional_embedding.embedding.weight",
        f"{place}.before.gate.weight": f"{TOWER}pre_tile_positional_embedding.gate",
        f"{place}.token.weight": Take(f"{TOWER}class_embedding", no_leading_axis=True),
        f"{place}.position.weight": f"{positions}.embedding",
        f"{place}.position_gate.weight": f"{positions}.gate",
        f"{place}.tile_position.weight": f"{positions}.tile_embedding.weight",
        f"{place}.norm.*": f"{TOWER}layernorm_pre.*",
        "vision.middle_norm.*": f"{TOWER}layernorm_post.*",
        "vision.after.weight": f"{TOWER}post_tile_positional_embedding.embedding.weight",
        "vision.after.gate.weight": f"{TOWER}post_tile_positional_embedding.gate",
    }
    for number in range(stack.num_layers):
        layer, later = f"vision.layers.{number}", number - stack.local_layers
        source = f"transformer.layers.{number}" if later < 0 else f"global_transformer.layers.{later}"
        for name in ("q", "k", "v", "o"):
            rules[f"{layer}.attention.{name}.*"] = f"{TOWER}{source}.self_attn.{name}_proj.*"
        rules |= {
            f"{layer}.attention_norm.*": f"{TOWER}{source}.input_layernorm.*",
            f"{layer}.attention_tanh_gate.weight": f"{TOWER}{source}.gate_attn",
            f"{layer}.feed_forward.up.*": f"{TOWER}{source}.mlp.fc1.*",
            f"{layer}.feed_forward.down.*": f"{TOWER}{source}.mlp.fc2.*",
            f"{layer}.feed_forward_norm.*": f"{TOWER}{source}.post_attention_layernorm.*",
            f"{layer}.feed_forward_tanh_gate.weight": f"{TOWER}{source}.gate_ffn",
        }
    return rules
