"""The nodes of a graph that an execution provider of ONNX Runtime computes, found without its device.

ONNX Runtime's own rules, applied to a table of the provider's kernels: the version match of its
KernelRegistry, the shapes that it leaves on the processor (fallback_cpu_capability.cc), and the copies of its
TransformerMemcpy. What depends on the numbers, and what a kernel refuses when it runs, is not seen.
"""

import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import onnx
from onnx import defs, helper, shape_inference

from txexport.bundle.manifest import Manifest
from txexport.errors import InputError

TABLES = Path(__file__).with_name("providers")
SMALL = 100  # elements; initialisers of no more may be on either side
HALVES = {"float16", "bfloat16"}  # in which ONNX Runtime computes nothing on the processor
EXPANDED = {"CastLike", "Swish"}  # without a kernel anywhere: ONNX Runtime replaces them by their definitions
CONTROL = {"If", "Loop", "Scan"}
WAITS = {"Compress", "NonZero", "Unique"}
SHAPES = {"Shape", "Size"}  # whose results are in the processor's memory
READ_ON_CPU: dict[str, set[int]] = {  # inputs that kernels read in the processor's memory
    **{name: {1} for name in ("CumSum", "Expand", "OneHot", "Reshape", "Split", "Squeeze", "Tile", "TopK")},
    **{name: {1} for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Trilu", "Unsqueeze")},
    **{name: {0} for name in ("ConstantOfShape", "If")},
    "Loop": {0, 1},
    "Pad": {1, 3},
    "Range": {0, 1, 2},
    "Resize": {1, 2, 3},
    "Slice": {1, 2, 3, 4},
}


@dataclass(frozen=True)
class Placement:
    """The nodes of a graph, by where they run.

    `missing` counts those without a kernel by operator and reason, which run on the processor; `shapes` is
    the number of nodes that ONNX Runtime leaves there on purpose; `copies` are the values that each run
    copies between the two; `branches` is the number of If, Loop and Scan; `waits` is that of nodes whose
    output's size the processor has to wait for; `addresses` is that of products of one batch of matrices with
    another of another shape, for which each run copies the matrices' addresses.
    """

    nodes: int
    missing: dict[str, int] = field(default_factory=dict)
    shapes: int = 0
    copies: list[str] = field(default_factory=list)
    branches: int = 0
    waits: int = 0
    addresses: int = 0

    @property
    def captured(self) -> bool:
        """True if CUDA can capture the graph as one whole (CUDA graphs): no branch, no copy and no wait."""
        return not (self.branches or self.copies or self.missing or self.waits or self.addresses)


def providers() -> list[str]:
    """The providers with a table, by the names that `placement` takes."""
    return sorted(path.stem for path in TABLES.glob("*.json"))


def placements(folder: Path, manifest: Manifest, provider: str) -> dict[str, Placement]:
    """The placement of every graph of a bundle, by file; see `placement`."""
    return {graph.file: placement(folder / graph.file, provider) for graph in manifest.every_graph}


def placement(path: Path, provider: str) -> Placement:
    """The placement of a file's graph by `provider`, such as "cuda". Raises InputError, BundleError."""
    if provider not in providers():
        raise InputError(f"there is no table of {provider}'s kernels; expected {', '.join(providers())}")
    return placement_of(_folded(path), provider)


def placement_of(model: onnx.ModelProto, provider: str) -> Placement:
    """The placement of a graph without functions and with the types of its values."""
    opset = next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    walk = _Walk(_kernels(provider), opset)
    walk.graph(model.graph, {}, set(), set(), outermost=True)
    return Placement(
        walk.nodes,
        {f"{name}: {reason}": count for (name, reason), count in sorted(walk.missing.items())},
        walk.shapes,
        walk.copies,
        walk.branches,
        walk.waits,
        walk.addresses,
    )


@cache
def _kernels(provider: str) -> dict[str, list[dict]]:
    return json.loads((TABLES / f"{provider}.json").read_text(encoding="utf-8"))["kernels"]


def _folded(path: Path) -> onnx.ModelProto:
    """The graph as a provider is shown it: functions inlined, constants folded; with types of all values."""
    from txexport.runtime.engines.folding import fold

    with tempfile.TemporaryDirectory(prefix="txexport-") as folder:
        model = onnx.load(fold(path, Path(folder)), load_external_data=False)
    del model.graph.value_info[:]
    return shape_inference.infer_shapes(model)


class _Walk:
    """The placement of a graph and of the graphs within it."""

    def __init__(self, kernels: Mapping[str, list[dict]], opset: int):
        self.kernels, self.opset = kernels, opset
        self.missing: Counter[tuple[str, str]] = Counter()
        self.copies: list[str] = []
        self.nodes = self.shapes = self.branches = self.waits = self.addresses = 0

    def graph(
        self,
        graph: onnx.GraphProto,
        types: Mapping[str, str],
        small: set[str],
        weights: set[str],
        outermost: bool = False,
    ) -> None:
        """Place a graph's nodes; `types`, `small` and `weights` are of values of the graphs around it."""
        types = {**types, **_types(graph)}
        constants = {node.output[0] for node in graph.node if node.op_type == "Constant"}
        weights = weights | {one.name for one in graph.initializer}
        small = small | constants | {one.name for one in graph.initializer if math.prod(one.dims) <= SMALL}
        inputs = {value.name for value in graph.input} - weights
        nodes = [node for node in graph.node if node.op_type != "Constant"]
        on_cpu = self._on_cpu(nodes, types, small, inputs)
        dims = _dims(graph)
        self.addresses += sum(node.op_type == "MatMul" and _by_address(node, dims) for node in nodes)
        self.nodes += len(nodes)
        producers = {
            name: index in on_cpu or node.op_type in SHAPES
            for index, node in enumerate(nodes)
            for name in node.output
        }
        readers: dict[str, set[bool]] = defaultdict(set)  # True: on the processor
        for index, node in enumerate(nodes):
            for place, name in enumerate(node.input):
                readers[name].add(index in on_cpu or place in READ_ON_CPU.get(node.op_type, ()))
            self.branches += node.op_type in CONTROL
            self.waits += node.op_type in WAITS
            for part in _within(node):
                captured = {name for inner in part.node for name in inner.input} & producers.keys()
                self.copies += sorted(name for name in captured if producers[name])
                self.graph(part, types, small, weights)
        for name, sides in readers.items():
            if name in producers and name not in small:
                self.copies += [name] if sides - {producers[name]} else []
            elif name in inputs and outermost and len(sides) == 2:
                self.copies.append(name)

    def _on_cpu(
        self, nodes: list[onnx.NodeProto], types: Mapping[str, str], small: set[str], inputs: set[str]
    ) -> set[int]:
        """The nodes that run on the processor, by their order: without a kernel, or for shapes."""
        result: set[int] = set()
        values: set[str] = set()  # in the processor's memory
        for index, node in enumerate(nodes):
            reason = None if node.op_type in EXPANDED else self._lacks(node, types)
            if reason is not None:
                self.missing[node.op_type, reason] += 1
                result.add(index)
                if values & set(node.input):
                    values |= set(node.output)
            elif node.op_type in SHAPES:
                values |= set(node.output)
            elif node.op_type not in CONTROL and self._of_shapes(node, types, values, small | inputs):
                self.shapes += 1
                result.add(index)
                values |= set(node.output)
        return result

    def _of_shapes(
        self, node: onnx.NodeProto, types: Mapping[str, str], values: set[str], free: set[str]
    ) -> bool:
        """Tell whether ONNX Runtime leaves a node on the processor, which has all that it reads."""
        if not values & set(node.input):
            return False
        read_there = READ_ON_CPU.get(node.op_type, ())
        return all(
            types.get(name) not in HALVES and (name in free or (name in values and place not in read_there))
            for place, name in enumerate(node.input)
            if name
        )

    def _lacks(self, node: onnx.NodeProto, types: Mapping[str, str]) -> str | None:
        """The reason why a node has no kernel; None if it has one."""
        rows = self.kernels.get(node.op_type, []) if node.domain in ("", "ai.onnx") else []
        if not rows:
            return "no kernel"
        schema = defs.get_schema(node.op_type, self.opset, "")
        since = schema.since_version
        fits = [row for row in rows if row["since"] <= since <= (row["until"] or row["since"])]
        if not fits:
            return f"no kernel of version {since}"
        bound: dict[str, set[str]] = defaultdict(set)
        for formals, actual in ((schema.inputs, node.input), (schema.outputs, node.output)):
            for place, name in enumerate(actual):
                formal = formals[min(place, len(formals) - 1)]
                if types.get(name) is not None:
                    bound[formal.type_str].add(types[name])
                    bound[formal.name].add(types[name])
        if any(all(bound[one] <= set(kinds) for one, kinds in row["types"].items()) for row in fits):
            return None
        return f"none of {', '.join(sorted({kind for one in fits[0]['types'] for kind in bound[one]}))}"


def _types(graph: onnx.GraphProto) -> dict[str, str]:
    """The types of a graph's values, such as "float" or "int64", where they are known."""
    values = (*graph.input, *graph.output, *graph.value_info)
    numbers = {value.name: value.type.tensor_type.elem_type for value in values}
    numbers |= {one.name: one.data_type for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            [attribute] = node.attribute
            value = helper.get_attribute_value(attribute)
            if attribute.name == "value":
                numbers[node.output[0]] = value.data_type
            else:
                numbers[node.output[0]] = (
                    onnx.TensorProto.FLOAT if "float" in attribute.name else onnx.TensorProto.INT64
                )
    return {
        name: onnx.TensorProto.DataType.Name(number).lower() for name, number in numbers.items() if number
    }


def _dims(graph: onnx.GraphProto) -> dict[str, list[int | str]]:
    """The dimensions of a graph's values, where their number is known."""
    result: dict[str, list[int | str]] = {one.name: list(one.dims) for one in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            result[value.name] = [
                one.dim_value if one.HasField("dim_value") else one.dim_param for one in dims
            ]
    return result


def _by_address(product: onnx.NodeProto, dims: Mapping[str, list[int | str]]) -> bool:
    """Tell whether a MatMul has batches of different shapes, neither of them one matrix.

    ONNX Runtime gives CUDA equal batches by their strides, and others by the address of each matrix.
    """
    first, second = (dims.get(name, [])[:-2] for name in product.input)
    return first != second and not any(all(dim == 1 for dim in batch) for batch in (first, second))


def _within(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    """The graphs that a node holds."""
    return (one.g for one in node.attribute if one.type == onnx.AttributeProto.GRAPH)
