"""A graph of a model, traced by transformers' exporter (torch.export and torch.onnx)."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx import TensorProto
from onnx_ir.passes.common import RemoveUnusedNodesPass
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

from txexport.contracts import Port, roles
from txexport.errors import UnsupportedError, first_line
from txexport.verification.traced.inputs import Layout
from txexport.verification.traced.originals import Original, quiet
from txexport.verification.traced.reasons import plain

GRAPH = roles.hub_path(roles.MODEL)  # of a model of one graph
CLASHING = "input.", "output."  # prefixes of names that an input and an output share


def traced(
    original: Original, layout: Layout, values: Mapping[str, np.ndarray], varied: Collection[str], opset: int
) -> ir.Model:
    """The graph of a model over the axes that are `varied`; other axes have the sizes of `values`.

    An axis that the exporter fixed in spite of that is fixed in the graph's inputs. Raises UnsupportedError
    where the exporter fails, with its reason.
    """
    feeds: dict[str, Any] = {name: torch.from_numpy(np.array(values[name])) for name in layout}
    shapes = {
        name: {place: torch.export.Dim.AUTO for place, axis in enumerate(axes) if axis in varied}
        for name, axes in layout.items()
    }
    model = exported(original.model, original.architecture, feeds | original.flags, shapes, opset)
    _drop_caches(model, original.run(values).keys())
    _name_axes(model, layout)
    return model


def exported(
    module: Any, architecture: str, feeds: Mapping[str, Any], shapes: dict[str, Any] | None, opset: int
) -> ir.Model:
    """The graph of a module's forward, free in `shapes`, or in all dimensions.

    `architecture` is the name in errors. Raises UnsupportedError.
    """
    settings = OnnxConfig(dynamic=True, dynamic_shapes=shapes, opset_version=opset)
    try:
        with quiet():
            model = OnnxExporter().export(module, dict(feeds), settings).program
    except Exception as error:
        raise UnsupportedError(f"{architecture} cannot be traced: {_cause(error)}") from None
    _forget_sources(model)
    return model


def ports(model: ir.Model) -> tuple[list[Port], list[Port]]:
    """The inputs and outputs of a graph, as a manifest lists them."""
    inputs, outputs = (
        [Port(str(one.name), TensorProto.DataType.Name(one.dtype or 0).lower(), dims(one)) for one in values]
        for values in (model.graph.inputs, model.graph.outputs)
    )
    return inputs, outputs


def save(model: ir.Model, path: Path) -> Path:
    """Write a graph and its weights beside it; return the path of the weights, which few graphs lack."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.with_name(f"{path.name}{roles.DATA}")
    ir.save(model, path, external_data=data.name)
    return data


def input_name(value: ir.Value) -> str:
    """The name that the model's forward has for an input of the graph."""
    return str(value.name).removeprefix(CLASHING[0])


def output_name(value: ir.Value) -> str:
    """The name that the model's answer has for an output of the graph."""
    return str(value.name).removeprefix(CLASHING[1])


def dims(value: ir.Value) -> list[int | str]:
    """The dimensions of an input or output; "" is one without a name."""
    shape: Any = value.shape or ()
    names = [size if isinstance(size, int) else str(size.value or "") for size in shape]
    return [int(name) if isinstance(name, str) and name.isdigit() else name for name in names]


def _cause(error: BaseException) -> str:
    """The first line of the first cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return plain(first_line(error))


def _drop_caches(model: ir.Model, expected: Collection[str]) -> None:
    """Remove outputs that the model does not give when its cache is turned off, which some classes ignore."""
    graph = model.graph
    remaining = [value for value in graph.outputs if output_name(value) in expected]
    if len(remaining) < len(graph.outputs):
        graph.outputs[:] = remaining
        RemoveUnusedNodesPass()(model)


def _name_axes(model: ir.Model, layout: Layout) -> None:
    """Give inputs the forward's names, their dimensions their axes', and those of outputs that equal them."""
    renamed: dict[int | str, str] = {}
    for value in model.graph.inputs:
        value.name = input_name(value)
        sizes = dims(value)
        for place, axis in enumerate(layout[value.name]):
            if isinstance(sizes[place], str):
                renamed.setdefault(sizes[place], axis)
                sizes[place] = axis
        value.shape = ir.Shape(sizes)
    for value in model.graph.outputs:
        value.shape = ir.Shape([renamed.get(size, size) if size else None for size in dims(value)])


def _forget_sources(model: ir.Model) -> None:
    """Remove notes on the Python that each node came from, with the paths of this machine."""
    for part in _parts(model):
        part.metadata_props.clear()
        part.doc_string = None


def _parts(model: ir.Model) -> Iterator[Any]:
    yield model
    for graph in model.graphs():
        yield graph
        yield from (*graph.inputs, *graph.initializers.values())
        for node in graph:
            yield node
            yield from node.outputs
    for function in model.functions.values():
        yield function
        for node in function.all_nodes():
            yield node
            yield from node.outputs
