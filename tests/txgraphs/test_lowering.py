"""Each operator spelled out for older opsets against the operator itself, in ONNX Runtime."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnxscript import script
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs._lowering import NEWER

B, N, K, S, C, H = 2, 4, 2, 3, 7, 6
DTYPES = {"float32": ir.DataType.FLOAT, "int64": ir.DataType.INT64, "bool": ir.DataType.BOOL}


@script(domain, default_opset=op)
def gelu(x):
    y = op.Gelu(x)
    return y


@script(domain, default_opset=op)
def gelu_tanh(x):
    y = op.Gelu(x, approximate="tanh")
    return y


@script(domain, default_opset=op)
def swish(x):
    y = op.Swish(x)
    return y


@script(domain, default_opset=op)
def rms(x, weight):
    y = op.RMSNormalization(x, weight, epsilon=0.01)
    return y


@script(domain, default_opset=op)
def rotary(x, cos, sin):
    y = op.RotaryEmbedding(x, cos, sin)
    return y


@script(domain, default_opset=op)
def rotary_part(x, cos, sin):
    y = op.RotaryEmbedding(x, cos, sin, rotary_embedding_dim=4)
    return y


@script(domain, default_opset=op)
def rotary_interleaved(x, cos, sin):
    y = op.RotaryEmbedding(x, cos, sin, interleaved=1)
    return y


@script(domain, default_opset=op)
def rotary_interleaved_part(x, cos, sin):
    y = op.RotaryEmbedding(x, cos, sin, interleaved=1, rotary_embedding_dim=4)
    return y


@script(domain, default_opset=op)
def scatter(past, new, write_indices):
    y = op.TensorScatter(past, new, write_indices)
    return y


@script(domain, default_opset=op)
def attention(q, k, v, mask):
    y = op.Attention(q, k, v, mask, scale=0.6)
    return y


@script(domain, default_opset=op)
def attention_by_length(q, k, v, filled):
    y = op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=0.6)
    return y


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def heads(count: int) -> tuple[np.ndarray, ...]:
    return numbers(B, N, S, H), numbers(B, count, C, H), numbers(B, count, C, H) + 1


MASK = np.random.default_rng(0).random((B, 1, S, C)) < 0.6
MASK[1, 0, 2] = False  # a query that sees nothing
WHOLE, PART = numbers(B, S, 3), numbers(B, S, 2)

CASES = {
    "gelu": (gelu, [4 * numbers(B, S, H)]),
    "gelu tanh": (gelu_tanh, [4 * numbers(B, S, H)]),
    "swish": (swish, [4 * numbers(B, S, H)]),
    "rms": (rms, [numbers(B, S, H), numbers(H)]),
    "rms of heads": (rms, [numbers(B, N, S, H), numbers(H)]),
    "rotary": (rotary, [numbers(B, N, S, H), WHOLE, WHOLE + 1]),
    "rotary in part": (rotary_part, [numbers(B, N, S, H), PART, PART + 1]),
    "rotary interleaved": (rotary_interleaved, [numbers(B, N, S, H), WHOLE, WHOLE + 1]),
    "rotary interleaved in part": (rotary_interleaved_part, [numbers(B, N, S, H), PART, PART + 1]),
    "scatter": (scatter, [numbers(B, K, C, H), numbers(B, K, S, H), np.array([0, 4])]),
    "attention": (attention, [*heads(N), MASK]),
    "attention, grouped": (attention, [*heads(K), MASK]),
    "attention by length": (attention_by_length, [*heads(N), np.array([3, 7])]),
    "attention by length, grouped": (attention_by_length, [*heads(K), np.array([5, 3])]),
}


def run(function, arrays: list[np.ndarray], opset: int) -> tuple[np.ndarray, set[str]]:
    """The function's output in the operators of `opset`, and those operators."""
    graph = Graph("operator", {})
    inputs = [
        graph.input(f"input{i}", DTYPES[a.dtype.name], [f"d{i}{j}" for j in range(a.ndim)])
        for i, a in enumerate(arrays)
    ]
    ndim = arrays[0].ndim
    graph.output(
        graph.call(function, *inputs, name="it"), "y", ir.DataType.FLOAT, [f"y{j}" for j in range(ndim)]
    )
    model = graph.model("test", opset)
    used = {node.op_type for f in model.functions.values() for node in f if node.domain == ""}
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    proto = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"input{i}": a for i, a in enumerate(arrays)})[0], used


@pytest.mark.parametrize("name", CASES)
def test_spelling_equals_the_operator(name):
    function, arrays = CASES[name]
    expected, newest = run(function, arrays, 24)
    assert newest & set(NEWER)
    for opset in (17, 18, 21):
        found, used = run(function, arrays, opset)
        assert not used & {operator for operator, first in NEWER.items() if first > opset}
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 2e-6


def test_every_newer_operator_has_its_case():
    used = set().union(*({node.op_type for node in f.function_ir} for f, _ in CASES.values()))
    assert used & set(NEWER) == set(NEWER)
