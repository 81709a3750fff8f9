"""Decoders with M-RoPE, 3D positions, which read packed patches of images (Wang et al. 2024, 2.1)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _pictured, vit
from txexport.families._causal import each_layer
from txexport.families._config import Config, TensorNames, minimal_cycle, shortened
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    ConnectorSpec,
    DecoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PackedSpec,
    RotarySpec,
    SignalStackSpec,
    VisionLanguageSpec,
)
from txexport.spec.enums import Activation

TOWER = "visual."
NAMING = Naming("model.language_model.", others=("model.",))
IMAGE_TOKEN = 151655
EPSILON = 1e-6  # of the image encoder's norms
SECTIONS = (16, 24, 24)  # frequencies of frames, rows and columns, where config.json says nothing
DEFAULTS = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "max_window_layers": 80,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e6,
}


def model(config: Config, text: DecoderSpec, images: SignalStackSpec) -> VisionLanguageSpec:
    """The image encoder with its connector, and the decoder."""
    patches = images.packed
    assert patches is not None
    wide, norm = images.hidden_size * patches.merged**2, images.blocks[0].norm
    connector = ConnectorSpec(
        hidden_size=images.hidden_size,
        size=text.decoder.hidden_size,
        grid=None,
        intermediate_size=wide,
        activation=Activation.GELU,
        merged=patches.merged,
        norm=norm,
        normed_first=True,
    )
    token = config.integer("image_token_id", IMAGE_TOKEN)
    return VisionLanguageSpec(images, connector, text.decoder, text.head, token)


def decoder(
    config: Config,
    names: TensorNames,
    family: ModuleType,
    defaults: Mapping[str, Any],
    axes_of: Callable[[Config, int], tuple[int, ...]],
) -> DecoderSpec:
    """The decoder of text_config, or in older files of config.json itself, with three axes of positions."""
    text = config.text_model().with_defaults(**defaults)
    text = text.replaced(tie_word_embeddings=_pictured.tied(config, names))
    key = "rope_scaling" if text.values.get("rope_scaling") else "rope_parameters"
    rope = dict(text.table(key).values)
    if rope.get("rope_type", rope.get("type")) in ("mrope", None):
        rope |= {"rope_type": "default"}
    text = text.replaced(**{key: rope})
    spec = family.spec(text, "text-generation", names)
    assert isinstance(spec, DecoderSpec)

    def on_axes(_: int, block: BlockSpec) -> BlockSpec:
        kind = block.attention
        if not isinstance(kind, AttentionSpec):  # it uses no positions
            return block
        assert kind.rotary is not None
        axes = axes_of(text.table(key), len(kind.rotary.frequencies))
        return replace(block, attention=replace(kind, rotary=replace(kind.rotary, axes=axes)))

    return replace(spec, decoder=each_layer(spec.decoder, on_axes))


def in_sections(rope: Config, count: int) -> tuple[int, ...]:
    """The axis of each frequency by mrope_section: temporal, height, width, temporal and so on."""
    sections = rope.values.get("mrope_section", [*SECTIONS])
    sizes = sections if isinstance(sections, list) and all(type(one) is int for one in sections) else []
    axes = tuple(number % 3 for number, size in enumerate(sizes) for _ in range(size))
    if len(axes) != count or {*axes} != {0, 1, 2}:
        raise UnsupportedError(
            f"{rope.path}: mrope_section is {shortened(sections)}, expected sizes of three sections or more "
            f"that add up to {count}"
        )
    return axes


def tower(
    vision: Config,
    width: int,
    feed_forward: FeedForwardSpec,
    norm: NormSpec,
    windows: list[int | None],
    grids: str = "image_grid_thw",
    bias: bool = False,
    side: int = 0,
) -> SignalStackSpec:
    """The image encoder; `windows` are those of its layers, in patches a side.

    `grids`, `bias` and `side` are those of its patches."""
    heads = vision.integer("num_heads", 16)
    head_dim = vision.head_dim(width, heads)
    rope = vision.table("rope_parameters")
    rope.expect(rope_type="axial")
    frequencies = plain_frequencies(rope.number("rope_theta", 10000.0), head_dim // 2)
    axes = (0,) * len(frequencies) + (1,) * len(frequencies)
    rotary = RotarySpec(frequencies * 2, axes=axes)
    if 2 * len(rotary.frequencies) != head_dim:
        raise UnsupportedError(
            f"{vision.path}: a head of an image encoder is {head_dim}, expected a multiple of 4"
        )
    attention = AttentionSpec(width, heads, heads, head_dim, causal=False, rotary=rotary)
    patches = PackedSpec(
        hidden_size=width,
        patch_size=vit.patch_size(vision.with_defaults(patch_size=14)),
        frames=vision.integer("temporal_patch_size", 2),
        merged=vision.integer("spatial_merge_size", 2),
        channels=vision.integer("in_channels", 3),
        bias=bias,
        side=side,
        grids=grids,
    )
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE)
    blocks = tuple(replace(block, attention=replace(attention, window=window)) for window in windows)
    return SignalStackSpec(patches, minimal_cycle(blocks), len(windows))


def table(spec: VisionLanguageSpec, family: ModuleType, feed_forward: Rules) -> Table:
    """Map parameters to the tensor names of transformers; `feed_forward` are those of the image encoder.

    The decoder's are those of its family.
    """
    patches = spec.vision.packed
    assert patches is not None
    rules, drop = _pictured.decoder_rules(family, DecoderSpec(spec.decoder, spec.head), "")
    layer, source = "vision.layers.{i}", f"{TOWER}blocks.{{i}}"
    sides = (patches.channels, patches.frames, patches.patch_size, patches.patch_size)
    rules |= {
        "vision.embedding.project.weight": Take(f"{TOWER}patch_embed.proj.weight", apart=sides),
        f"{layer}.attention.o.*": f"{source}.attn.proj.*",
        f"{layer}.attention_norm.*": f"{source}.norm1.*",
        f"{layer}.feed_forward_norm.*": f"{source}.norm2.*",
        "connector.norm.*": f"{TOWER}merger.ln_q.*",
        "connector.up.*": f"{TOWER}merger.mlp.0.*",
        "connector.down.*": f"{TOWER}merger.mlp.2.*",
    }
    rules |= {
        f"{layer}.attention.{name}.*": Take(f"{source}.attn.qkv.*", part=part, parts=3)
        for part, name in enumerate("qkv")
    }
    rules |= {f"{layer}.feed_forward.{ours}": f"{source}.mlp.{name}" for ours, name in feed_forward.items()}
    return Table(rules, NAMING, drop)
