"""Names and shapes of what layers with states have, in the order in which components declare them."""

from txexport.spec import (
    ChannelMixSpec,
    GatedDeltaSpec,
    KimiDeltaSpec,
    Mamba2Spec,
    MambaSpec,
    RgLruSpec,
    ShortConvolutionSpec,
    TimeMixSpec,
)
from txexport.spec.shapes import Shapes, grouped_linear, linear, norm, under


def short_convolution(spec: ShortConvolutionSpec) -> Shapes:
    """The projection to gates and inputs, the convolution, and the output's projection."""
    width = spec.hidden_size
    shapes = {
        **under("project", linear(width, 3 * width, spec.bias)),
        "convolution.weight": (width, 1, spec.kernel),
    }
    if spec.bias:
        shapes["convolution.bias"] = (width,)
    return shapes | under("output", linear(width, width, spec.bias))


def gated_delta(spec: GatedDeltaSpec) -> Shapes:
    """Projections, the convolution, rate and step of the decay, the norm and the output's projection."""
    width, heads = spec.hidden_size, spec.num_value_heads
    sizes = dict(zip(("query", "key", "value"), spec.widths, strict=True))
    sizes |= {"gate": spec.widths[2], "beta": heads, "decay": heads}
    shapes: Shapes = {f"{name}.weight": (size, width) for name, size in sizes.items()}
    return shapes | {
        "convolution.weight": (sum(spec.widths), 1, spec.kernel),
        "rate": (heads,),
        "step": (heads,),
        **under("head_norm", norm(spec.norm)),
        **under("output", linear(spec.widths[2], width, False)),
    }


def kimi_delta(spec: KimiDeltaSpec) -> Shapes:
    """As a gated delta rule's, with a step of each channel, and two projections each of decay and gate."""
    size, inner, heads = spec.hidden_size, spec.width, spec.num_delta_heads
    shapes: Shapes = {f"{name}.weight": (inner, size) for name in ("query", "key", "value")}
    for name in ("decay", "gate"):
        shapes |= under(f"{name}_down", linear(size, spec.head_dim, False))
        shapes |= under(f"{name}_up", linear(spec.head_dim, inner, False))
    return shapes | {
        "beta.weight": (heads, size),
        "convolution.weight": (3 * inner, 1, spec.kernel),
        "rate": (heads,),
        "step": (inner,),
        **under("head_norm", norm(spec.norm)),
        **under("output", linear(inner, size, False)),
    }


def mamba2(spec: Mamba2Spec) -> Shapes:
    """The projection to gate, inputs and steps, the convolution, numbers of each head, norm and output."""
    inner, mixed, heads = spec.inner_size, sum(spec.widths), spec.num_state_heads
    shapes = {
        **under("project", linear(spec.hidden_size, inner + mixed + heads, spec.bias)),
        "convolution.weight": (mixed, 1, spec.kernel),
    }
    if spec.convolution_bias:
        shapes["convolution.bias"] = (mixed,)
    return shapes | {
        "rate": (heads,),
        "step": (heads,),
        "skip": (heads,),
        **under("gated_norm", {} if spec.norm is None else norm(spec.norm)),
        **under("output", linear(inner, spec.hidden_size, spec.bias)),
    }


def mamba(spec: MambaSpec) -> Shapes:
    """The projections, the convolution, and the numbers of each channel."""
    inner = spec.inner_size
    shapes = {
        **under("project", linear(spec.hidden_size, 2 * inner, spec.bias)),
        "convolution.weight": (inner, 1, spec.kernel),
    }
    if spec.convolution_bias:
        shapes["convolution.bias"] = (inner,)
    return shapes | {
        **under("select", linear(inner, sum(spec.widths), False)),
        **under("step", linear(spec.step_rank, inner, True)),
        **{
            f"{name}_norm.weight": (one.size,)
            for name, one in zip(("step", "b", "c"), spec.norms or (), strict=False)
        },
        "rate": (inner, spec.state_size),
        "skip": (inner,),
        **under("output", linear(inner, spec.hidden_size, spec.bias)),
    }


def rg_lru(spec: RgLruSpec) -> Shapes:
    """The projections, the convolution, the gates of the recurrence, and the rate of each channel."""
    size, width = spec.hidden_size, spec.width
    gate = grouped_linear(width, width, True, spec.num_blocks)
    return {
        **under("project", linear(size, width, True)),
        "convolution.weight": (width, 1, spec.kernel),
        "convolution.bias": (width,),
        **under("input_gate", gate),
        **under("recurrent_gate", gate),
        "rate": (width,),
        **under("gate", linear(size, width, True)),
        **under("output", linear(width, size, True)),
    }


def time_mix(spec: TimeMixSpec) -> Shapes:
    """The interpolation of each projection, the projections, and the decay and bonus of each channel."""
    size = spec.hidden_size
    mixes: Shapes = {f"mix_{name}": (size,) for name in ("k", "v", "gate")}
    return {
        **mixes,
        **under("k", linear(size, size, False)),
        **under("v", linear(size, size, False)),
        "decay": (size,),
        "bonus": (size,),
        **under("gate", linear(size, size, False)),
        **under("output", linear(size, size, False)),
    }


def channel_mix(spec: ChannelMixSpec) -> Shapes:
    """The interpolation of each projection, the projections up and down, and that of the gate."""
    size, inner = spec.hidden_size, spec.intermediate_size
    return {
        "mix_up": (size,),
        "mix_gate": (size,),
        **under("up", linear(size, inner, False)),
        **under("down", linear(inner, size, False)),
        **under("gate", linear(size, size, False)),
    }
