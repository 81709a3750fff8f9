"""Changes of an exported graph: of what it reads, of what it returns, of its nodes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Graphs = dict[str, onnx.ModelProto]
Change = Callable[[Graphs], None]


class Edit:
    """New nodes in a graph, and new values in place of old ones."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.graph = model, model.graph
        self.new: list[onnx.NodeProto] = []
        self.count = sum(1 for one in self.graph.node if one.name.startswith("changed"))

    def op(self, kind: str, *inputs: str | np.ndarray, **attributes: Any) -> str:
        """Add a node over values and constants; the name of its output."""
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        name = f"changed.{self.count}.{len(self.new)}"
        self.new.append(helper.make_node(kind, names, [name], name=name, **attributes))
        return name

    def _constant(self, array: np.ndarray) -> str:
        name = f"changed.{self.count}.{len(self.new)}.{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def replace(self, old: str, new: str) -> None:
        """Let all nodes but the new ones read `new` for `old`, and add the new ones."""
        readers = [reader for reader in _nodes(self.graph) if old in reader.input]
        assert readers, f"nothing reads {old}"
        for reader in readers:
            reader.input[:] = [new if name == old else name for name in reader.input]
        self.finish()

    def output(self, name: str, change: Callable[[str], str]) -> None:
        """Let the graph return `change` of what it returned under that name."""
        right = f"{name}.right"
        for one in _nodes(self.graph):
            one.input[:] = [right if value == name else value for value in one.input]
            one.output[:] = [right if value == name else value for value in one.output]
        last = change(right)
        self.new.append(helper.make_node("Identity", [last], [name], name=f"changed.{self.count}.{name}"))
        self.finish()

    def finish(self) -> None:
        """Add the new nodes, and sort all nodes so that each value precedes its readers."""
        nodes = [*self.graph.node, *self.new]
        self.new = []
        del self.graph.node[:]
        self.graph.node.extend(ordered(nodes))
        self.count += 1


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the graphs within them."""
    for one in graph.node:
        yield one
        for part in one.attribute:
            if part.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(part.g)


def reads(one: onnx.NodeProto) -> set[str]:
    """The values that a node reads, within its branches too."""
    inner = [part.g for part in one.attribute if part.type == onnx.AttributeProto.GRAPH]
    return {*one.input, *(name for graph in inner for within in _nodes(graph) for name in within.input)}


def ordered(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes sorted so that each value precedes its readers, near the old order."""
    waiting = {name: place for place, one in enumerate(nodes) for name in one.output}
    result: list[onnx.NodeProto] = []
    done: set[int] = set()

    def visit(place: int) -> None:
        if place in done:
            return
        done.add(place)
        for name in sorted(reads(nodes[place])):
            if name in waiting:
                visit(waiting[name])
        result.append(nodes[place])

    for place in range(len(nodes)):
        visit(place)
    return result


def of(change: Callable[[onnx.ModelProto], None], *files: str) -> Change:
    """A change of one model as a change of an export: of the files of those names, or of all of them."""

    def changed(graphs: Graphs) -> None:
        for name in files or graphs:
            change(graphs[name])

    return changed
