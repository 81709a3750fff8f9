"""Log-mel spectrograms through two convolutions over time (Radford et al. 2022, 2.2)."""

import onnx_ir as ir

from txexport.spec import LogMelSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation


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


embedding = sound_embedding
