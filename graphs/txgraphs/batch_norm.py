"""Batch normalisation with the statistics of training."""

import onnx_ir as ir

from txexport.spec import BatchNormSpec
from txgraphs._component import Body, component


@component("y")
def batch_norm(spec: BatchNormSpec, g: Body, x: ir.Value) -> ir.Value:
    """Normalisation of channels by the mean and the variance of training (Ioffe and Szegedy 2015, 3.1).

    x (B,W,S) -> (B,W,S).
    """
    weights = [g.weight(name) for name in ("weight", "bias", "mean", "variance")]
    y: ir.Value = g.op.BatchNormalization(x, *weights, epsilon=spec.eps, name="normed")
    return y
