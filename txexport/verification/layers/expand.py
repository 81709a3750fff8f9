"""A graph taken apart into components: which of its calls is which module of the twin."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from torch import nn

Names = dict[str, str]


@dataclass(frozen=True)
class Place:
    """A module's argument or output: which call of the module, and which of its values."""

    module: str
    call: int
    kind: str  # "argument" or "output"
    index: int


@dataclass(frozen=True)
class Point:
    """A value to compare with the twin's at `place`, or at the graph's output where that is None.

    `source` is the graph's value, `component` and `name` say what is wrong where it is; `kind` as in
    ComponentCheck. What comes from a call or a graph input as it is has no `maker`, and else the component
    and the name of the value that make it.
    """

    source: str
    place: Place | None
    component: str
    kind: str
    name: str
    maker: tuple[str, str] | None = None


@dataclass
class Scope:
    """The body of a call: its values under the names of the whole graph, and which of them are parameters."""

    module: str | None = None
    prefix: str = ""
    names: Names = field(default_factory=dict)
    parameters: Names = field(default_factory=dict)  # by formal name, those of the module, with their dots


class Expansion:
    """The nodes of a model with every call of a module replaced by its function's body.

    Where `cut`, whatever reads a module's output reads the twin's instead, and a body reads the twin's
    arguments: `fed` are those new inputs, and each component is alone with true numbers. `points` are what to
    compare, in the order of computing.
    """

    def __init__(self, model: onnx.ModelProto, modules: Mapping[str, nn.Module], cut: bool):
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.modules, self.cut = modules, cut
        self.nodes: list[onnx.NodeProto] = []
        self.points: list[Point] = []
        self.fed: dict[str, Place] = {}
        self._calls: dict[str, int] = {}
        self._makers: dict[str, tuple[str, str] | None] = {}
        # What depends on no input of the graph: weights, and what is computed of them.
        self._live = {value.name for value in model.graph.input}
        top = Scope()
        for node in model.graph.node:
            self._visit(node, top)
        for value in model.graph.output:
            source = top.names.get(value.name, value.name)
            if source not in self.fed:
                maker = self._makers.get(source)
                component = maker[0] if maker else "outputs"
                self.points.append(Point(source, None, component, "output", value.name))

    @property
    def matched(self) -> set[str]:
        """The modules that calls were found for."""
        return set(self._calls)

    def _visit(self, node: onnx.NodeProto, scope: Scope) -> None:
        function = self.functions.get((node.domain, node.op_type))
        if function is None or function.attribute or any(map(_nests, function.node)):
            self._copy(node, scope)
            return
        if scope.module is None:
            module = node.name if node.name in self.modules else None
        else:
            module = self._part(node, scope)
        if module is None:
            self._copy(node, scope)
        elif module == scope.module:
            self._helper(node, function, scope)
        else:
            self._call(node, function, scope, module)

    def _part(self, node: onnx.NodeProto, scope: Scope) -> str | None:
        """The module whose parameters a call takes, which may be the scope's own; None if it takes none."""
        paths = [scope.parameters[name].split(".")[:-1] for name in node.input if name in scope.parameters]
        if not paths:
            return None
        common = []
        for parts in zip(*paths, strict=False):
            if len(set(parts)) > 1:
                break
            common.append(parts[0])
        return ".".join([str(scope.module), *common])

    def _copy(self, node: onnx.NodeProto, scope: Scope) -> None:
        """A node as it is, under names of the whole graph."""
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        copied.name = f"{scope.prefix}{node.name}"
        del copied.input[:], copied.output[:]
        copied.input.extend(scope.names.get(name, name) for name in node.input)
        live = any(name in self._live for name in copied.input)
        outputs = self._formals(node)
        for name, formal in zip(node.output, outputs, strict=True):
            if name:
                scope.names.setdefault(name, f"{scope.prefix}{name}")
            copied.output.append(scope.names.get(name, ""))
            if live and name:
                self._live.add(copied.output[-1])
            called = (node.domain, node.op_type) in self.functions
            if scope.module is not None:
                self._makers[copied.output[-1]] = (scope.module, name)
            elif called and node.name:
                self._makers[copied.output[-1]] = (node.name, formal)
        self.nodes.append(copied)

    def _formals(self, node: onnx.NodeProto) -> Sequence[str]:
        function = self.functions.get((node.domain, node.op_type))
        return node.output if function is None else function.output[: len(node.output)]

    def _helper(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope) -> None:
        """The body of a function that is part of a module, with its parameters."""
        inner = self._inner(node, function, scope, str(scope.module))
        pairs = zip(function.input, node.input, strict=False)
        inner.parameters = {
            formal: scope.parameters[given] for formal, given in pairs if given in scope.parameters
        }
        self._body(function, inner)
        for formal, name in zip(function.output, node.output, strict=False):
            scope.names[name] = inner.names[formal]

    def _call(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope, path: str) -> None:
        """The body of a module's function, what arrives at it and what comes out of it."""
        module, number = self.modules[path], self._calls.get(path, 0)
        self._calls[path] = number + 1
        inner = self._inner(node, function, scope, path)
        parameters = {name.replace(".", "_"): name for name, _ in module.named_parameters()}
        formals = list(function.input)
        arguments = next((i for i, name in enumerate(formals) if name in parameters), len(formals))
        inner.parameters = {name: parameters[name] for name in formals[arguments:] if name in parameters}
        for index, formal in enumerate(formals[:arguments]):
            source = inner.names[formal]
            if source in self._live:
                place = Place(path, number, "argument", index)
                maker = self._makers.get(source)
                self.points.append(Point(source, place, path, "input", formal, maker))
                inner.names[formal] = self._feed(f"{path}#{number}:{formal}", place, source)
        self._body(function, inner)
        whole = parameters.keys() <= set(formals)  # or else it is one of the calls that make up the module
        for index, (formal, name) in enumerate(zip(function.output, node.output, strict=False)):
            source = inner.names[formal]
            if whole and name:
                place = Place(path, number, "output", index)
                self.points.append(Point(source, place, path, "output", formal))
                source = self._feed(f"{path}#{number}>{formal}", place, source)
            scope.names[name] = source

    def _feed(self, name: str, place: Place, source: str) -> str:
        """The name under which the twin's value is read in place of the graph's, which is `source`."""
        if not self.cut:
            return source
        self.fed[name] = place
        self._live.add(name)
        return name

    def _inner(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope, module: str) -> Scope:
        given = [scope.names.get(name, name) for name in node.input]
        given += [""] * (len(function.input) - len(given))
        names = dict(zip(function.input, given, strict=True))
        return Scope(module, f"{scope.prefix}{node.name or len(self.nodes)}/{len(self.nodes)}/", names)

    def _body(self, function: onnx.FunctionProto, scope: Scope) -> None:
        for node in function.node:
            self._visit(node, scope)


def _nests(node: onnx.NodeProto) -> bool:
    """Whether a node holds a graph of its own, whose names would have to be followed too."""
    return any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute)


def unmatched(modules: Iterable[str], matched: set[str]) -> list[str]:
    """Layers of the twin that no call of the graph, nor any part of them, was found for."""
    return [
        name
        for name in modules
        if name.split(".")[-1].isdigit()
        and ".layers." in name
        and name.count(".") == 2
        and not any(result == name or result.startswith(f"{name}.") for result in matched)
    ]
