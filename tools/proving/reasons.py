"""The reason why the cases cannot tell a changed graph from the true one."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from proving.changes import DROPPED, MOVED, Change

Arrays = Mapping[str, np.ndarray]
Runs = Sequence[tuple[Arrays, Arrays]]
MASKED = 1e4  # a score that is this far below others has no weight in float32


def reason(
    change: Change, model: onnx.ModelProto, runs: Runs, changed: Runs, inner: Callable[..., Arrays]
) -> str:
    """The reason in a few words; it begins with "equal" if all outputs are equal bit by bit."""
    true = {_key(inputs): outputs for inputs, outputs in runs}
    before = [true.get(_key(inputs)) for inputs, _ in changed]  # None where earlier outputs were read
    outputs = [
        (one[name], other[name])
        for one, (_, other) in zip(before, changed, strict=True)
        for name in one or ()
    ]
    if None not in before and all(_same(*pair) for pair in outputs):
        return f"equal: {_why_equal(change, model, runs, inner)}"
    if _shifts_keys(change, model):
        return "the same for a softmax: one vector added to all keys moves the scores of a query alike"
    if any(one.shape != other.shape for one, other in outputs):
        return "right beside the original, with outputs of another shape"
    branch = "another branch of If computes the same, rounded otherwise" if _chooses(change, model) else None
    largest = max((_difference(*pair) for pair in outputs if pair[0].size), default=0.0)
    return f"{branch or 'below the bound'}: no output of a run changes by more than {largest:.0e} of its size"


def _key(arrays: Arrays) -> tuple:
    """A key that equal inputs share."""
    return tuple((name, one.shape, one.tobytes()) for name, one in sorted(arrays.items()))


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference relative to the mean magnitude."""
    finite = np.isfinite(one) & np.isfinite(other)
    return float(np.abs(one - other)[finite].max(initial=0) / max(np.abs(one[finite]).mean(), 1e-30))


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _why_equal(change: Change, model: onnx.ModelProto, runs: Runs, inner: Callable[..., Arrays]) -> str:
    node = next(one for one in model.graph.node if change.node in (one.name, *one.output))
    if change.kind == MOVED and node.op_type == "Constant":
        array = _constant(node)
        if array is not None and array.dtype.kind == "f" and array.size and array.min() <= -MASKED:
            return "a score of a masked key, whose weight is 0 either way"
    inputs = max((one for one, _ in runs), key=lambda one: sum(array.size for array in one.values()))
    try:
        before, after = inner(model, inputs), inner(change.model, inputs)
    except Exception:
        return "other"
    if all(_same(before[name], after[name]) for name in node.output if name):
        return "it changes nothing" if change.kind == DROPPED else "the node gives the same in every case"
    return _absorbed(model, before, after, set(node.output))


def _absorbed(model: onnx.ModelProto, before: Arrays, after: Arrays, other: set[str]) -> str:
    """The operators that give the same for either, though they read some of the `other` values."""
    operators = set()
    for node in model.graph.node:
        if other & set(node.input):
            changed = {name for name in node.output if name and not _same(before[name], after[name])}
            other |= changed
            operators |= set() if changed else {node.op_type}
    if not operators:
        return "no output depends on the node"
    return f"{', '.join(sorted(operators))} gives the same for either"


def _chooses(change: Change, model: onnx.ModelProto) -> bool:
    """Tell whether a node takes part in nothing but the choice of a branch."""
    names = {name for node in model.graph.node if change.node == node.name for name in node.output}
    chosen = False
    for reader in model.graph.node:
        if names & set(reader.input):
            if reader.op_type == "If" or reader.output[0] in {one.name for one in model.graph.output}:
                chosen = reader.op_type == "If"
                if not chosen:
                    return False
            else:
                names |= set(reader.output)
    return chosen


def _shifts_keys(change: Change, model: onnx.ModelProto) -> bool:
    """Tell whether a node adds one vector to all keys of an attention, which moves all its scores alike."""
    node = next(one for one in model.graph.node if change.node in (one.name, *one.output))
    if node.op_type != "Add" or change.text.startswith("Mul"):
        return False
    names = set(node.output)
    for reader in model.graph.node:
        if names & set(reader.input):
            if reader.op_type == "Attention":
                return names & set(reader.input) == {reader.input[1]}
            if reader.op_type in ("Reshape", "Transpose"):
                names |= set(reader.output)
    return False


def _constant(node: onnx.NodeProto) -> np.ndarray | None:
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.array(value)
    return None
