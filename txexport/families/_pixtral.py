"""Pixtral's image encoder (Agrawal et al. 2024): patches of images of any size, rotated by row and column."""

from txexport.checkpoints.weight_map import Rules
from txexport.errors import UnsupportedError
from txexport.families import vit
from txexport.families._config import Config
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    FeedForwardSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PatchSpec,
    RotarySpec,
    SignalStackSpec,
)

EPSILON = 1e-5  # of all norms


def vision_stack(vision: Config) -> SignalStackSpec:
    """The image encoder. Raises UnsupportedError for heads that rows and columns do not share."""
    width = vision.integer("hidden_size", 1024)
    heads = vision.integer("num_attention_heads", 16)
    # The original computes the size of a head, whatever head_dim says.
    head_dim = vision.replaced(head_dim=None).head_dim(width, heads)
    if head_dim % 4:
        raise UnsupportedError(
            f"{vision.path}: a head of an image encoder is {head_dim}, expected a multiple of 4"
        )
    rope = vision.table("rope_parameters")
    rope.expect(rope_type="axial")
    theta = rope.number("rope_theta", vision.number("rope_theta", 10000.0))
    frequencies = plain_frequencies(theta, head_dim)
    half = len(frequencies) // 2
    rotary = RotarySpec(frequencies[::2] + frequencies[1::2], axes=(0,) * half + (1,) * half)
    norm = NormSpec(width, EPSILON, NormKind.RMS)
    patches = PatchSpec(
        hidden_size=width,
        image_size=vit.image_size(vision.with_defaults(image_size=1024)),
        patch_size=vit.patch_size(vision),
        channels=vision.integer("num_channels", 3),
        tokens=0,
        bias=False,
        norm=norm,
        any_size=True,
        positioned=False,
    )
    attention = AttentionSpec(
        width,
        heads,
        heads,
        head_dim,
        causal=False,
        unmasked=True,
        rotary=rotary,
        bias=False,
        output_bias=False,
    )
    feed_forward = FeedForwardSpec(
        width,
        vision.integer("intermediate_size", 4096),
        vision.activation("hidden_act", "gelu"),
        bias=False,
        gated=True,
    )
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE)
    return SignalStackSpec(patches, (block,), vision.count("num_hidden_layers", 24))


def rules(prefix: str) -> Rules:
    """Tensor names of the image encoder."""
    layer, source = "vision.layers.{i}", f"{prefix}transformer.layers.{{i}}"
    return {
        "vision.embedding.project.weight": f"{prefix}patch_conv.weight",
        "vision.embedding.norm.weight": f"{prefix}ln_pre.weight",
        **{f"{layer}.attention.{name}.*": f"{source}.attention.{name}_proj.*" for name in "qkvo"},
        **{
            f"{layer}.feed_forward.{name}.*": f"{source}.feed_forward.{name}_proj.*"
            for name in ("gate", "up", "down")
        },
        f"{layer}.attention_norm.*": f"{source}.attention_norm.*",
        f"{layer}.feed_forward_norm.*": f"{source}.ffn_norm.*",
    }


def later_layers(prefix: str, layers: range) -> tuple[str, ...]:
    """Tensor names of layers that are left out."""
    return tuple(f"{prefix}transformer.layers.{layer}.*" for layer in layers)
