"""Comparison of a component's two halves: seeded weights and inputs, the graph half in a session."""

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import torch
from onnxscript import OnnxFunction
from txgraphs._graph import Graph
from txgraphs._nodes import Parameter
from txmodels.mask import cache_mask
from txmodels.position import positions

from txexport.formats import FLOAT32
from txexport.spec.attention import Reach

ABSENT = None
EVERYTHING = Reach(None)
DTYPES = {torch.int64: ir.DataType.INT64, torch.float32: ir.DataType.FLOAT, torch.bool: ir.DataType.BOOL}


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    """`module` with random parameters, no norm scale of 1 and no bias of 0; variances are positive."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.3 * noise if is_scale else 0.2 * noise)
            if name.endswith("variance"):
                parameter.copy_(1 + noise**2)
    return module.eval()


def random(*shape: int) -> torch.Tensor:
    """Standard normal numbers, the same for the same shape."""
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32))


def integers(high: int, *shape: int) -> torch.Tensor:
    """Integers below `high`."""
    return torch.from_numpy(np.random.default_rng(sum(shape)).integers(0, high, shape))


def stored(
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]], prefix: str = ""
) -> dict[str, Parameter]:
    """A module's parameters in the form that a graph takes, under names that begin with `prefix`."""
    tensors = {
        f"{prefix}{name}": ir.tensor(parameter.detach().numpy(), name=f"{prefix}{name}")
        for name, parameter in named_parameters
    }
    return {name: Parameter(FLOAT32, {"": tensor}) for name, tensor in tensors.items()}


def run_graph(function, outputs, named_parameters, arguments, named) -> tuple[list[np.ndarray], set[str]]:
    """Call a graph function in a session; return outputs and requested parameters; None is absent."""
    graph, feeds = Graph("component", stored(named_parameters, "part.")), {}

    def value(argument):
        if argument is ABSENT:
            return None
        if isinstance(argument, dict):
            return {name: value(part) for name, part in argument.items()}
        name = f"input{len(feeds)}"
        feeds[name] = argument.numpy()
        return graph.input(name, DTYPES[argument.dtype], [f"{name}_{j}" for j in range(argument.ndim)])

    inputs = [value(argument) for argument in arguments]
    if isinstance(function, OnnxFunction):
        result = graph.call(function, *inputs, name="part")
    else:
        result = function(graph / "part", *inputs, **value(named))
    values = [result] if isinstance(result, ir.Value) else result
    for i, (made, output) in enumerate(zip(values, outputs, strict=True)):
        graph.output(made, f"output{i}", DTYPES[output.dtype], [f"out{i}_{j}" for j in range(output.ndim)])
    options = ort.SessionOptions()
    options.log_severity_level = 3
    model = ir.to_proto(graph.model("test")).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds), {name.removeprefix("part.") for name in set(graph.uses)}


def over_slots(
    filled: torch.Tensor, past_k: torch.Tensor, new: int, reach: Reach = EVERYTHING
) -> torch.Tensor:
    """The mask (B,1,new,C) of `new` tokens per row after `filled` (B) slots of past_k."""
    return cache_mask(reach, positions(past_k.new_zeros(len(filled), new), filled), past_k)


def lengths_of(spec, mask, filled: torch.Tensor, new: int) -> dict[str, torch.Tensor]:
    """The lengths that a stack passes to a layer: `new` tokens per row after `filled` (B) slots."""
    told = {"single": torch.tensor([new == 1])} if spec.shares_keys else {}
    return told | ({"filled": filled + new} if mask is ABSENT else {})


def rows_of(x: torch.Tensor, picks: torch.Tensor, axis: int) -> torch.Tensor:
    """x (B,...) of S along `axis`, picks (B,L) -> those L positions of each row."""
    return torch.stack([row.index_select(axis - 1, chosen) for row, chosen in zip(x, picks, strict=True)])


def check_asked(module, function, mask, *arguments, **context) -> None:
    """As `check`, for the tokens of logits_indices in `context`: the results under `mask` at these."""
    picks = context["logits_indices"]
    found, *_ = check(module, function, *arguments, **context | {"mask": rows_of(mask, picks, 2)})
    with torch.no_grad():
        every, *_ = module(*arguments, **context | {"mask": mask, "logits_indices": None})
    assert np.abs(found - rows_of(every, picks, 1).numpy()).max() <= 1e-5


def check(module, function, *arguments, **named) -> list[np.ndarray]:
    """Compare both halves on the same arguments: outputs equal within 1e-5, and the same parameters."""
    parameters = []
    if isinstance(module, torch.nn.Module):
        parameters = list(seeded(module).named_parameters())
    with torch.no_grad():
        expected = module(*arguments, **named)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found, asked = run_graph(function, expected, parameters, arguments, named)
    assert asked == {name for name, _ in parameters}
    for a, b in zip(found, expected, strict=True):
        assert a.shape == tuple(b.shape)
        assert np.abs(a.astype(np.float64) - b.detach().numpy()).max() <= 1e-5
    return found
