"""A component's two halves against each other: seeded weights and inputs, the graph half in a session."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import torch
from txgraphs._graph import Graph

ABSENT = None
DTYPES = {torch.int64: ir.DataType.INT64, torch.float32: ir.DataType.FLOAT, torch.bool: ir.DataType.BOOL}


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    """`module` with random parameters, no norm scale of 1 and no bias of 0."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.3 * noise if is_scale else 0.2 * noise)
    return module.eval()


def random(*shape: int) -> torch.Tensor:
    """Normal numbers, equal for equal sizes in all."""
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32))


def integers(high: int, *shape: int) -> torch.Tensor:
    """Integers below `high`."""
    return torch.from_numpy(np.random.default_rng(sum(shape)).integers(0, high, shape))


def run_graph(function, arguments, outputs, named_parameters) -> list[np.ndarray]:
    """The graph function called once in a session; an argument of None is absent."""
    tensors = {
        f"part.{name}": ir.tensor(parameter.detach().numpy(), name=f"part.{name}")
        for name, parameter in named_parameters
    }
    graph = Graph("component", tensors)
    inputs = [
        None
        if a is ABSENT
        else graph.input(f"input{i}", DTYPES[a.dtype], [f"in{i}_{j}" for j in range(a.ndim)])
        for i, a in enumerate(arguments)
    ]
    result = graph.call(function, *inputs, under="part", name="part")
    values = [result] if isinstance(result, ir.Value) else result
    for i, (value, output) in enumerate(zip(values, outputs, strict=True)):
        graph.output(value, f"output{i}", DTYPES[output.dtype], [f"out{i}_{j}" for j in range(output.ndim)])
    options = ort.SessionOptions()
    options.log_severity_level = 3
    model = ir.to_proto(graph.model("test")).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"input{i}": a.numpy() for i, a in enumerate(arguments) if a is not ABSENT})


def check(module, function, *arguments) -> list[np.ndarray]:
    """Both halves on the same arguments: equal outputs within 1e-5, and equal parameter names in order."""
    named = []
    if isinstance(module, torch.nn.Module):
        named = list(seeded(module).named_parameters())
        graph_names = [value.name for value in function.function_ir.inputs[len(arguments) :]]
        own = [name.replace(".", "_") for name, _ in named]
        assert [name for name in graph_names if name in own] == own
    with torch.no_grad():
        expected = module(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = run_graph(function, arguments, expected, named)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == tuple(b.shape)
        assert np.abs(a.astype(np.float64) - b.numpy()).max() <= 1e-5
    return found
