"""SAM (Kirillov et al. 2023): a ViT over windows, and a decoder of masks for points and boxes."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BlockSpec,
    FeedForwardSpec,
    GridAttentionSpec,
    MaskDecoderSpec,
    MaskPromptSpec,
    NeckSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    PromptableSpec,
    StagedStackSpec,
    StageSpec,
    TwoWaySpec,
)

TASKS = {"mask-generation": ("SamModel",)}
NAMING = Naming()
REFUSED = {"SamVisionModel": "it returns maps alone; expected SamModel"}

EPS = 1e-6
VISION = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 1024,
    "patch_size": 16,
    "global_attn_indexes": [2, 5, 8, 11],
}
DECODER = {"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 256, "mlp_dim": 2048}
MASK_PROMPT = {
    f"mask_prompt.{ours}.*": f"prompt_encoder.mask_embed.{theirs}.*"
    for ours, theirs in (
        ("halve", "conv1"),
        ("halve_norm", "layer_norm1"),
        ("halve_again", "conv2"),
        ("halve_again_norm", "layer_norm2"),
        ("project", "conv3"),
    )
}
PARTS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}


def spec(config: Config, task: str, names: TensorNames) -> PromptableSpec:
    """The architecture that config.json describes."""
    config.expect(tie_word_embeddings=True)  # of images' positions and those of points
    vision = config.table("vision_config").with_defaults(**VISION)
    prompts, decoder = config.table("prompt_encoder_config"), config.table("mask_decoder_config")
    stack = _vision(vision)
    size = vision.integer("output_channels", 256)
    _, height, width = stack.embedding.shape
    prompts.with_defaults(image_size=1024, patch_size=16).expect(
        image_size=height, patch_size=stack.embedding.patch_size, hidden_size=size, num_point_embeddings=4
    )
    if height != width or height % stack.embedding.patch_size:
        raise UnsupportedError(
            f"{vision.path}: image_size is {height} x {width}, expected a square of whole patches"
        )
    return PromptableSpec(
        vision=stack,
        neck=NeckSpec(stack.hidden_size, NormSpec(size, EPS)),
        decoder=_decoder(decoder.with_defaults(**DECODER)),
        frequencies=vision.integer("num_pos_feats", 128),
        mask_prompt=mask_prompt(prompts),
    )


def _vision(config: Config) -> StagedStackSpec:
    """The encoder of images: one stage, most of its layers over windows."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config.check_width("hidden_size", width)
    patches = PatchGridSpec(
        width,
        vit.image_size(config),
        vit.patch_size(config),
        None,
        config.integer("num_channels", 3),
        positioned=config.flag("use_abs_pos", True),
        fixed=True,
    )
    norm = NormSpec(width, config.number("layer_norm_eps", EPS))
    inner = config.values.get("mlp_dim") or int(width * config.number("mlp_ratio", 4.0))
    network = FeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))
    window, layers = config.integer("window_size", 14), config.count("num_hidden_layers")
    everywhere = layers_of(config, "global_attn_indexes")
    blocks = []
    for layer in range(layers):
        windowed = layer not in everywhere and window > 0
        rows, columns = (window, window) if windowed else patches.grid
        attention = GridAttentionSpec(
            width,
            heads,
            config.head_dim(width, heads),
            rows,
            columns,
            windowed,
            relative=config.flag("use_rel_pos", True),
            bias=config.flag("qkv_bias", True),
        )
        blocks.append(BlockSpec(attention, network, norm, NormPlacement.PRE))
    return StagedStackSpec(patches, (StageSpec(tuple(blocks), layers),))


def mask_prompt(config: Config) -> MaskPromptSpec:
    """The part of the prompt encoder that reads a mask."""
    channels, eps = config.integer("mask_input_channels", 16), config.number("layer_norm_eps", EPS)
    return MaskPromptSpec(channels, config.activation("hidden_act", "gelu"), eps)


def layers_of(config: Config, key: str) -> list[int]:
    """The numbers of layers in a list."""
    layers = config.values.get(key)
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise CheckpointError(f"{config.path}: '{key}' is {shortened(layers)}, expected numbers of layers")
    return layers


def _decoder(config: Config) -> MaskDecoderSpec:
    """The decoder of masks."""
    width = config.integer("hidden_size")
    layers = TwoWaySpec(
        width,
        config.integer("num_attention_heads"),
        config.count("num_hidden_layers"),
        config.integer("mlp_dim"),
        config.activation("hidden_act", "relu"),
        NormSpec(width, config.number("layer_norm_eps", EPS)),
        NormSpec(width, 1e-5),
        config.integer("attention_downsample_rate", 2),
    )
    return MaskDecoderSpec(
        layers,
        config.integer("num_multimask_outputs", 3) + 1,
        NormSpec(width // 4, EPS),
        config.integer("iou_head_depth", 3),
        config.integer("iou_head_hidden_dim", 256),
    )


def table(spec: PromptableSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        "vision.embedding.project.*": "vision_encoder.patch_embed.projection.*",
        "vision.embedding.position.weight": Take("vision_encoder.pos_embed", leading_axis=True),
        "neck.project.weight": "vision_encoder.neck.conv1.weight",
        "neck.project_norm.*": "vision_encoder.neck.layer_norm1.*",
        "neck.convolve.weight": "vision_encoder.neck.conv2.weight",
        "neck.convolve_norm.*": "vision_encoder.neck.layer_norm2.*",
        "frequencies.weight": Take(
            "shared_image_embedding.positional_embedding",
            also=("prompt_encoder.shared_embedding.positional_embedding",),
        ),
        "prompts.none.weight": "prompt_encoder.not_a_point_embed.weight",
        "decoder.no_mask.weight": "prompt_encoder.no_mask_embed.weight",
        **MASK_PROMPT,
        **_vision_rules("vision.layers.{i}", "vision_encoder.layers.{i}"),
        **decoder_rules(spec.decoder),
    }
    for label in range(4):
        rules[f"prompts.labels.{label}.weight"] = f"prompt_encoder.point_embed.{label}.weight"
    return Table(rules, NAMING)


def _vision_rules(layer: str, source: str) -> Rules:
    """One layer of the encoder, whose query, key and value are one matrix."""
    rules: Rules = {
        f"{layer}.attention.{name}.*": Take(f"{source}.attn.qkv.*", part=part, parts=3)
        for part, name in enumerate("qkv")
    }
    return rules | {
        f"{layer}.attention.o.*": f"{source}.attn.proj.*",
        f"{layer}.attention.row_position.weight": f"{source}.attn.rel_pos_h",
        f"{layer}.attention.column_position.weight": f"{source}.attn.rel_pos_w",
        f"{layer}.attention_norm.*": f"{source}.layer_norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.lin1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.lin2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layer_norm2.*",
    }


def decoder_rules(spec: MaskDecoderSpec) -> Rules:
    """The decoder of masks."""
    rules: Rules = {
        "decoder.score_token.weight": "mask_decoder.iou_token.weight",
        "decoder.mask_tokens.weight": "mask_decoder.mask_tokens.weight",
        "decoder.upscale.*": "mask_decoder.upscale_conv1.*",
        "decoder.upscale_norm.*": "mask_decoder.upscale_layer_norm.*",
        "decoder.upscale_again.*": "mask_decoder.upscale_conv2.*",
        "decoder.layers.final_norm.*": "mask_decoder.transformer.layer_norm_final_attn.*",
    }
    attentions = {"decoder.layers.to_image": "mask_decoder.transformer.final_attn_token_to_image"}
    for layer in range(spec.layers.num_layers):
        ours, theirs = f"decoder.layers.layers.{layer}", f"mask_decoder.transformer.layers.{layer}"
        attentions |= {
            f"{ours}.self_attention": f"{theirs}.self_attn",
            f"{ours}.to_image": f"{theirs}.cross_attn_token_to_image",
            f"{ours}.to_prompts": f"{theirs}.cross_attn_image_to_token",
        }
        parts = ("self_attention", "to_image", "feed_forward", "to_prompts")
        rules |= {f"{ours}.{part}_norm.*": f"{theirs}.layer_norm{n}.*" for n, part in enumerate(parts, 1)}
        rules |= {
            f"{ours}.feed_forward.up.*": f"{theirs}.mlp.lin1.*",
            f"{ours}.feed_forward.down.*": f"{theirs}.mlp.lin2.*",
        }
    for ours, theirs in attentions.items():
        rules |= {f"{ours}.{part}.*": f"{theirs}.{name}.*" for part, name in PARTS.items()}
    networks = {
        f"decoder.vectors.{mask}": f"mask_decoder.output_hypernetworks_mlps.{mask}"
        for mask in range(spec.masks)
    }
    depths = dict.fromkeys(networks, 3) | {"decoder.score": spec.score_layers}
    for ours, theirs in (networks | {"decoder.score": "mask_decoder.iou_prediction_head"}).items():
        between = [f"layers.{layer}" for layer in range(depths[ours] - 2)]
        for layer, name in enumerate(["proj_in", *between, "proj_out"]):
            rules[f"{ours}.{layer}.*"] = f"{theirs}.{name}.*"
    return rules
