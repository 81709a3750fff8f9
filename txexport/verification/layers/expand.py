"""A graph split into its components: each call of a function matched with a module of the twin."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from torch import nn

Names = dict[str, str]


@dataclass(frozen=True)
class Place:
    """An argument or output of a module: the module, which of its calls, and which value."""

    module: str
    call: int
    kind: str  # "argument" or "output"
    index: int


@dataclass(frozen=True)
class Point:
    """A value to compare with the twin's at `place`, or with the graph's output if that is None.

    `source` is the graph's value. `component`, `kind` and `name` are those of ComponentCheck, if the value is
    wrong. `maker` is the component and value that computed it; None for a value that comes unchanged from a
    call or a graph input.
    """

    source: str
    place: Place | None
    component: str
    kind: str
    name: str
    maker: tuple[str, str] | None = None


@dataclass
class Scope:
    """The body of a call: its values by their names in the graph, and its parameters."""

    module: str | None = None
    prefix: str = ""
    names: Names = field(default_factory=dict)
    parameters: Names = field(default_factory=dict)  # names in the module by formal name


class Expansion:
    """The nodes of a model with every call of a module replaced by its function's body.

    If `cut`, readers of a module's output read the twin's instead, and bodies read the twin's arguments:
    `fed` are these new inputs, and each component runs alone on true numbers. `points` are the values to
    compare, in the order of execution.
    """

    def __init__(self, model: onnx.ModelProto, modules: Mapping[str, nn.Module], cut: bool):
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.modules, self.cut = modules, cut
        self.nodes: list[onnx.NodeProto] = []
        self.points: list[Point] = []
        self.fed: dict[str, Place] = {}
        self._calls: dict[str, int] = {}
        self._makers: dict[str, tuple[str, str] | None] = {}
        # Values that depend on an input of the graph; the others are weights and constants.
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
        """The modules for which calls were found."""
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
        """The module whose parameters a call takes, possibly the scope's own; None for none."""
        paths = [scope.parameters[name].split(".")[:-1] for name in node.input if name in scope.parameters]
        if not paths:
            return None
        common = []
        for parts in zip(*paths, strict=False):
            if len(set(parts)) > 1:
                break
            common.append(parts[0])
        module = ".".join([str(scope.module), *common])
        while isinstance(self.modules.get(module), nn.ModuleList):  # which is no call itself
            module = module.rpartition(".")[0]
        # A table of positions is read by its number, never called.
        return None if isinstance(self.modules.get(module), nn.Embedding) else module

    def _copy(self, node: onnx.NodeProto, scope: Scope) -> None:
        """Copy a node, with the graph's names of its values."""
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
        """Insert the body of a function that is part of a module, with its parameters."""
        inner = self._inner(node, function, scope, str(scope.module))
        pairs = zip(function.input, node.input, strict=False)
        inner.parameters = {
            formal: scope.parameters[name] for formal, name in pairs if name in scope.parameters
        }
        self._body(function, inner)
        for formal, name in zip(function.output, node.output, strict=False):
            scope.names[name] = inner.names[formal]

    def _call(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope, path: str) -> None:
        """Insert the body of a module's function, with points for its arguments and outputs."""
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
        complete = parameters.keys() <= set(formals)  # else it is one of several calls of the module
        for index, (formal, name) in enumerate(zip(function.output, node.output, strict=False)):
            source = inner.names[formal]
            if complete and name:
                place = Place(path, number, "output", index)
                self.points.append(Point(source, place, path, "output", formal))
                source = self._feed(f"{path}#{number}>{formal}", place, source)
            scope.names[name] = source

    def _feed(self, name: str, place: Place, source: str) -> str:
        """The name of the twin's value in place of the graph's `source`, if cut."""
        if not self.cut:
            return source
        self.fed[name] = place
        self._live.add(name)
        return name

    def _inner(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope, module: str) -> Scope:
        inputs = [scope.names.get(name, name) for name in node.input]
        inputs += [""] * (len(function.input) - len(inputs))
        names = dict(zip(function.input, inputs, strict=True))
        return Scope(module, f"{scope.prefix}{node.name or len(self.nodes)}/{len(self.nodes)}/", names)

    def _body(self, function: onnx.FunctionProto, scope: Scope) -> None:
        for node in function.node:
            self._visit(node, scope)


def _nests(node: onnx.NodeProto) -> bool:
    """True if a node holds a graph of its own, whose names would have to be followed too."""
    return any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute)


def unmatched(modules: Iterable[str], matched: set[str]) -> list[str]:
    """The layers of the twin for which neither a call nor a call of a part was found."""
    return [
        name
        for name in modules
        if name.split(".")[-1].isdigit()
        and ".layers." in name
        and name.count(".") == 2
        and not any(result == name or result.startswith(f"{name}.") for result in matched)
    ]
