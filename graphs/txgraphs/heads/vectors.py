"""The vector of a sequence beside its hidden states."""

import onnx_ir as ir

from txexport.spec import VectorSpec
from txgraphs._component import Body, component
from txgraphs.attention_pool import attention_pool
from txgraphs.heads.pick import pick
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("pooled")
def pooler(g: Body, x: ir.Value) -> ir.Value:
    """Dense and tanh over the first token (Devlin et al. 2019, 3.1): x (B,S,W) -> pooled (B,W)."""
    first = g.op.Gather(x, g.op.Constant(value_int=0), axis=1, name="first")  # (B, W)
    pooled = g.op.Tanh(linear(True, g / "dense", first))  # (B, W)
    return pooled


@component("vector")
def sequence_vector(
    spec: VectorSpec, g: Body, x: ir.Value, input_ids: ir.Value | None, attention_mask: ir.Value | None
) -> ir.Value:
    """One vector of a sequence, normalised and projected (Radford et al. 2021, 2.4), or attention-pooled.

    x (B,S,W), input_ids and attention_mask (B,S) -> vector (B,size).
    """
    if spec.pool is not None:
        return attention_pool(spec.pool, g / "pool", x)  # (B, W)
    vector = g.call(pick(spec.pick, spec.pick_argument), x, input_ids, attention_mask)  # (B, W)
    if spec.norm is not None:
        vector = norm(spec.norm, g / "norm", vector)  # (B, W)
    return vector if spec.size is None else linear(spec.bias, g / "project", vector)  # (B, size)
