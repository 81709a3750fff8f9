"""Log-mel spectrograms through two convolutions over time (Radford et al. 2022, 2.2)."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import LogMelSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.activation import activation


@script(domain, default_opset=op)
def every_second(attention_mask):
    """attention_mask (B,frames) -> mask (B,S): 1 for a vector at a real frame."""
    first, axis, step = op.Constant(value_ints=[0]), op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
    mask = op.Slice(attention_mask, first, op.Shape(attention_mask, start=1, end=2), axis, step)
    return mask


@component("x")
def sound_embedding(spec: LogMelSpec, g: Body, input_features: ir.Value) -> ir.Value:
    """Two convolutions over the frames of a spectrogram, plus positions (Radford et al. 2022, 2.2).

    input_features (B,bands,frames) -> x (B,S,W), S half as many as frames.
    """

    def convolved(x: ir.Value, name: str, stride: int) -> ir.Value:
        weight, bias = g.weight(f"{name}.weight"), g.weight(f"{name}.bias")
        wide = g.op.Conv(x, weight, bias, pads=[1, 1], strides=[stride])
        return g.call(activation(spec.activation), wide, name=name)

    frames = convolved(input_features, "first", 1)  # (B, W, frames)
    halved = convolved(frames, "second", 2)  # (B, W, S)
    x = g.op.Add(g.op.Transpose(halved, perm=[0, 2, 1]), g.weight("position.weight"))  # (B, S, W)
    return x


@component("x", "mask")
def masked_sound_embedding(
    spec: LogMelSpec, g: Body, input_features: ir.Value, attention_mask: ir.Value
) -> tuple[ir.Value, ...]:
    """As `sound_embedding`, with attention_mask (B,frames) -> x (B,S,W), mask (B,S)."""
    x: ir.Value = sound_embedding(spec, g, input_features)
    return x, g.call(every_second, attention_mask, name="mask")


def embedding(
    spec: LogMelSpec, place: Place, input_features: ir.Value, attention_mask: ir.Value | None = None
) -> ir.Value | tuple[ir.Value, ...]:
    """The vectors of a sound, and their mask where it has one."""
    if attention_mask is None:
        return sound_embedding(spec, place, input_features)
    return masked_sound_embedding(spec, place, input_features, attention_mask)
