"""A mixture of feed-forward networks; each token takes a few of them."""

import numpy as np
import onnx_ir as ir

from txexport.spec import ExpertsSpec
from txgraphs._component import Body, component
from txgraphs._rows_by_expert import RowsByExpert
from txgraphs.feedforward import feed_forward, network
from txgraphs.linear import linear


@component("share", "choice")
def router(spec: ExpertsSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The router: the experts of each token and their weights (Jiang et al. 2024, 2.1).

    x (B,S,W) -> weights and indices of the chosen experts, both (B*S,C).
    """
    op = g.op
    scores = op.Flatten(linear(spec.router_bias, g, x), axis=-1, name="scores")  # (B*S, experts)
    if spec.corrected:
        soft = spec.softmax_scores
        scores = op.Softmax(scores, axis=-1, name="scores") if soft else op.Sigmoid(scores, name="scores")
        share, choice = _corrected(spec, g, scores)
    elif spec.jitter is not None:
        share, choice = _near_ones(spec, g, scores, spec.jitter)
    elif spec.sigmoid:
        share, choice = _sigmoid(spec, g, scores)
    else:
        if not spec.normalised:
            scores = op.Softmax(scores, axis=-1, name="scores")
        top_k, scores = op.Constant(value_ints=[spec.top_k]), _within_groups(spec, g, scores, 1)
        best, choice = op.TopK(scores, top_k, name=["best", "choice"])  # (B*S, C)
        share = op.Softmax(best, axis=-1) if spec.normalised else best
    if spec.scale != 1:
        share = op.Mul(share, op.Constant(value_float=spec.scale))
    if spec.expert_scale:
        share = op.Mul(share, op.Gather(g.weight("expert_scale"), choice))
    if spec.capacity is not None:
        by_row = op.Concat(op.Shape(x, start=0, end=2), op.Constant(value_ints=[1]), axis=0)
        choice = _within_capacity(spec, g, op.Reshape(choice, by_row), spec.capacity)
    return share, choice


def _within_capacity(spec: ExpertsSpec, g: Body, choice: ir.Value, capacity: int) -> ir.Value:
    """choice (B,S,1) -> (B*S,1): no expert's number where `capacity` tokens before it chose the same."""
    op = g.op
    numbers = op.Constant(value_ints=list(range(spec.num_experts)))
    taken = op.Cast(op.Equal(choice, numbers), to=7)  # (B, S, experts)
    counts = op.CumSum(taken, op.Constant(value_int=1), name="counts")
    rank = op.GatherElements(counts, choice, axis=2, name="rank")  # (B, S, 1)
    full = op.Greater(rank, op.Constant(value_int=capacity))
    choice = op.Where(full, op.Constant(value_int=spec.num_experts), choice)
    return op.Flatten(choice, axis=-1, name="choice")


def _corrected(spec: ExpertsSpec, g: Body, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
    """scores (B*S,experts) -> the best with e_score_correction_bias, and their indices, both (B*S,C)."""
    op = g.op
    ranked = _within_groups(spec, g, op.Add(scores, g.weight("correction"), name="ranked"), 2)
    _, choice = op.TopK(ranked, op.Constant(value_ints=[spec.top_k]), name=["best", "choice"])  # (B*S, C)
    share = op.GatherElements(scores, choice, axis=1, name="share")
    if spec.normalised:
        total = op.ReduceSum(share, op.Constant(value_ints=[1]))  # (B*S, 1)
        share = op.Div(share, op.Add(total, op.Constant(value_float=spec.sum_eps)))
    return share, choice


def _sigmoid(spec: ExpertsSpec, g: Body, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
    """scores (B*S,experts) -> sigmoids of the best, and their indices, both (B*S,C)."""
    op = g.op
    best, choice = op.TopK(scores, op.Constant(value_ints=[spec.top_k]), name=["best", "choice"])  # (B*S, C)
    share = op.Sigmoid(best, name="share")
    if spec.normalised:
        share = op.Div(share, op.ReduceSum(share, op.Constant(value_ints=[1])))
    return share, choice


def _near_ones(spec: ExpertsSpec, g: Body, scores: ir.Value, jitter: float) -> tuple[ir.Value, ir.Value]:
    """scores (B*S,experts) -> SparseMixer weights of the best ones, and their indices, (B*S,C)."""
    op = g.op
    best, choice = op.TopK(scores, op.Constant(value_ints=[spec.top_k]), name=["best", "choice"])  # (B*S, C)
    hidden, reach = op.Constant(value_float=-3.0e38), op.Constant(value_float=2 * jitter)
    left, shares = scores, []
    for place in range(spec.top_k):
        at = op.Constant(value_ints=[place])
        own, number = op.Gather(best, at, axis=1, name="own"), op.Gather(choice, at, axis=1)  # (B*S, 1)
        larger = op.Max(op.Abs(scores), own, name="larger")
        far = op.Greater(op.Div(op.Sub(own, scores), larger), reach, name="far")  # (B*S, experts)
        near = op.Softmax(op.Where(far, hidden, left), axis=-1, name="near")
        shares.append(op.GatherElements(near, number, axis=1))
        left = op.ScatterElements(left, number, op.Expand(hidden, op.Shape(number)), axis=1, name="left")
    share = op.Concat(*shares, axis=1, name="share")  # (B*S, C)
    return share, choice


def _within_groups(spec: ExpertsSpec, g: Body, scores: ir.Value, best: int) -> ir.Value:
    """scores (B*S,experts) -> scores, masked outside the groups whose `best` scores add up highest."""
    if spec.num_groups == 1:
        return scores
    op, last = g.op, g.op.Constant(value_ints=[-1])
    size = spec.num_experts // spec.num_groups
    groups = op.Reshape(scores, op.Constant(value_ints=[-1, spec.num_groups, size]), name="groups")
    first, _ = op.TopK(groups, op.Constant(value_ints=[best]), name=["first", "places"])
    merits = op.ReduceSum(first, last, keepdims=0, name="merits")  # (B*S, groups)
    _, chosen = op.TopK(merits, op.Constant(value_ints=[spec.top_groups]), name=["merit", "chosen"])
    numbers = op.Constant(value_ints=list(range(spec.num_groups)))
    same = op.Equal(op.Unsqueeze(chosen, last), numbers)  # (B*S, top_groups, groups)
    kept = op.ReduceSum(op.Cast(same, to=7), op.Constant(value_ints=[1]), keepdims=0)  # (B*S, groups)
    hidden = op.Constant(value_float=-3.0e38)
    within = op.Where(op.Cast(op.Unsqueeze(kept, last), to=9), groups, hidden)
    return op.Reshape(within, op.Constant(value_ints=[-1, spec.num_experts]), name="within")


def chosen(spec: ExpertsSpec, g: Body, x: ir.Value, share: ir.Value, choice: ir.Value) -> ir.Value:
    """x (B,S,W), share and choice (B*S,C) -> the sum (B,S,W) of what the chosen experts give.

    Rows are ordered by experts, so that all but the products is done once for all of them.
    """
    op = g.op
    zero, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    numbers = op.Constant(value=np.arange(spec.num_experts, dtype=np.int64)[:, None, None])
    taken = op.Equal(choice, numbers, name="taken")  # (experts, B*S, C)
    sizes = op.ReduceSum(op.Cast(taken, to=7), op.Constant(value_ints=[1, 2]), keepdims=0, name="sizes")
    routes = op.NonZero(taken, name="routes")  # (3, R): expert, token, and which of its choices
    rows_of = RowsByExpert(g, sizes, op.Gather(routes, op.Constant(value_int=0), name="expert"))
    at = op.Transpose(op.Slice(routes, one, op.Constant(value_ints=[3]), zero), name="at")  # (R, 2)
    rows = op.GatherND(op.Flatten(x, axis=2), op.Slice(at, zero, one, one), name="rows")  # (R, W)
    weight = op.Unsqueeze(op.GatherND(share, at), one, name="weight")  # (R, 1)

    def project(part: str, x: ir.Value) -> ir.Value:
        every = [g / "experts" / str(number) / part for number in range(spec.num_experts)]
        return rows_of.projected(spec.expert.bias, every, x)

    if spec.weighted_inputs:
        parts = network(spec.expert, g, project, op.Mul(rows, weight, name="weighted"))  # (R, W)
    else:
        parts = op.Mul(network(spec.expert, g, project, rows), weight, name="parts")
    several = op.Concat(op.Shape(choice), op.Shape(parts, start=1), axis=0)  # B*S, C, W
    nothing = op.CastLike(op.ConstantOfShape(several), parts)
    each = op.ScatterND(nothing, at, parts, name="each")  # (B*S, C, W)
    return op.Reshape(op.ReduceSum(each, one, name="total"), op.Shape(x))


@component("y")
def experts(spec: ExpertsSpec, g: Body, x: ir.Value) -> ir.Value:
    """A router and its experts (Shazeer et al. 2017, 2; Jiang et al. 2024, 2.1): x (B,S,W) -> y (B,S,W)."""
    op = g.op
    share, choice = router(spec, g / "router", x)
    if spec.token_size is not None:
        latent = chosen(spec, g, linear(False, g / "latent_down", x), share, choice)  # (B, S, L)
        y = linear(False, g / "latent_up", latent)  # (B, S, W)
    else:
        y = chosen(spec, g, x, share, choice)  # (B, S, W)
    if spec.shared is not None:
        if spec.shared_gated:
            gate = op.Sigmoid(linear(False, g / "shared_router", x), name="gate")  # (B, S, 1)
            shared = op.Mul(gate, feed_forward(spec.shared, g / "shared", x), name="shared")
        else:
            shared = feed_forward(spec.shared, g / "shared", x)
        y = op.Add(y, shared)
    if spec.output_bias:
        y = op.Add(y, g.weight("bias"))
    return y
