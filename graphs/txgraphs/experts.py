"""A mixture of feed-forward networks, of which each token takes a few."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import ExpertsSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear


@cache
def router(spec: ExpertsSpec) -> OnnxFunction:
    """Which experts a token takes, and with what weights (Jiang et al. 2024, 2.1).

    x (B,S,W) -> weights and numbers of the chosen experts, both (B*S,C).
    """
    chosen, project = spec.top_k, linear(False)

    @script(domain, default_opset=op)
    def router(x, weight):
        scores = op.Flatten(project(x, weight, None), axis=-1)  # (B*S, experts)
        best, choice = op.TopK(scores, op.Constant(value_ints=[chosen]))  # (B*S, C)
        share = op.Softmax(best, axis=-1)
        return share, choice

    return router


@cache
def expert(spec: ExpertsSpec) -> OnnxFunction:
    """One expert: it computes the tokens that take it, and no others.

    total (B*S,W) so far, x (B,S,W), share and choice (B*S,C), number (1) -> total with its part.
    """
    feed = feed_forward(spec.expert)

    @script(domain, default_opset=op)
    def expert(
        total, x, share, choice, number, up_weight, up_bias, gate_weight, gate_bias, down_weight, down_bias
    ):
        taken = op.Transpose(op.NonZero(op.Equal(choice, number)))  # (R, 2): the rows that take it, and where
        token = op.Slice(taken, [0], [1], [1])  # (R, 1)
        rows = op.GatherND(op.Flatten(x, axis=2), token)  # (R, W)
        fed = feed(rows, up_weight, up_bias, gate_weight, gate_bias, down_weight, down_bias)  # (R, W)
        weight = op.Unsqueeze(op.GatherND(share, taken), op.Constant(value_ints=[1]))  # (R, 1)
        total = op.ScatterND(total, token, fed * weight, reduction="add")
        return total

    return expert


def experts(spec: ExpertsSpec, graph: Graph, x: ir.Value, under: str) -> ir.Value:
    """A router and its experts (Shazeer et al. 2017, 2; Jiang et al. 2024, 2.1): x (B,S,W) -> y (B,S,W)."""
    op = graph.builder.op
    share, choice = graph.call(router(spec), x, under=f"{under}.router")
    total = op.ConstantOfShape(op.Shape(op.Flatten(x, axis=2)))  # (B*S, W): zeros
    for number in range(spec.num_experts):
        index = graph.constant(f"expert.{number}", [number])
        total = graph.call(expert(spec), total, x, share, choice, index, under=f"{under}.experts.{number}")
    return op.Reshape(total, op.Shape(x))  # (B, S, W)
