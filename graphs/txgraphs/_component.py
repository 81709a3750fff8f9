"""Graph functions built by calls: the requested parameters become inputs of the function."""

import functools
import inspect
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from txexport.formats import Use
from txgraphs import DOMAIN, OPSET
from txgraphs._nodes import Function, Nodes, Operators, OwnMatrices, Place, Received, Recorded

Build = Callable[..., Any]


class Body(Nodes):
    """The body of a function under construction, which is first called at `place`.

    Requested parameters become inputs: the values that functions receive of the parameter.
    """

    def __init__(self, inputs: Sequence[ir.Value], place: Nodes):
        self.graph = ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET, DOMAIN: 1})
        self.op = Operators(self.graph)
        self.branch = self.graph  # where calls are added
        self.place = place
        self.called: list[Function] = []
        self.asked: dict[tuple[str, Use, int], Received] = {}
        self._matrices = OwnMatrices(lambda name, number: self._asked(name, Use.PRODUCT, number).values)

    def __truediv__(self, name: str) -> Place:
        return Place(self, name)

    @property
    def dtype(self) -> ir.DataType:
        """See Nodes."""
        return self.place.dtype

    def ask(self, name: str, use: Use) -> Received:
        """The parameter that the component calls `name`; the input of `q.weight` is `q_weight`."""
        return self._asked(name, use, 1)

    def _asked(self, name: str, use: Use, number: int) -> Received:
        """The inputs of a parameter, those of its product `number` if each has inputs of its own."""
        if (name, use, number) not in self.asked:
            there = self.place.ask(name, use)
            label = name.replace(".", "_") + (f"_{number}" if number > 1 else "")
            values = {part: ir.Value(name="_".join(filter(None, (label, part)))) for part in there.values}
            self.graph.inputs.extend(values.values())
            self.asked[name, use, number] = Received(there.format, values)
            if there.format.private and use is Use.PRODUCT and number == 1:
                self._matrices.add(name, values)
        return self.asked[name, use, number]

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "", **attributes: Any) -> Any:
        """One call node; a single output is called `name`, or after the function."""
        label = name or str(function.function_ir.name)
        names = [value.name for value in function.function_ir.outputs]
        outputs = [ir.Value(name=label if len(names) == 1 else f"{label}.{output}") for output in names]
        kind = str(function.function_ir.name)
        values = self._matrices.arguments(self.branch, arguments)
        node = ir.node(kind, values, attributes, domain=DOMAIN, outputs=outputs, name=label)
        self.branch.append(node)
        self.called.append(function)
        return outputs[0] if len(outputs) == 1 else outputs

    def either(self, condition: ir.Value, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """The results of the calls of `then` if `condition`, of one element, is true, else of `other`."""
        branches = {}
        for name, build in (("then_branch", then), ("else_branch", other)):
            self.branch = branches[name] = ir.Graph([], [], nodes=[], name=name)
            results = build()
            self.branch.outputs.extend([results] if isinstance(results, ir.Value) else results)
        self.branch = self.graph
        outputs = [ir.Value(name="chosen") for _ in branches["then_branch"].outputs]
        self.graph.append(ir.node("If", [condition], branches, outputs=outputs, name="If"))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def close(self, name: str, names: Sequence[str], results: Sequence[ir.Value]) -> Recorded:
        """The function `name` with outputs `names` and values `results`; a switch may omit the last ones."""
        taken = Counter(str(value.name) for value in self.graph.inputs)
        for output, result in zip(names[: len(results)], results, strict=True):
            value = result if result.producer() else self.op.Identity(result)
            value.name = _free(output, taken)
            self.graph.outputs.append(value)
        nodes: Counter[str] = Counter()
        for node in self.graph.all_nodes():
            node.name = _free(str(node.name), nodes)
            for value in node.outputs:
                if value not in self.graph.outputs:
                    value.name = _free(str(value.name), taken)
        function = ir.Function(DOMAIN, name, graph=self.graph, attributes=[])
        return Recorded(function, self.called, {key: there.format for key, there in self.asked.items()})


def _free(name: str, taken: Counter[str]) -> str:
    """`name`, with a number if it is already used."""
    free = name
    while taken[free]:
        taken[name] += 1
        free = f"{name}_{taken[name]}"
    taken[free] += 1
    return free


def component(*outputs: str) -> Callable[[Build], Build]:
    """Make a graph function of a Python function that returns the values `outputs`, or the first ones.

    Its arguments are switches, then the place `g`, then values, some of which may be absent; a dict holds
    several, and so do the arguments after `**`. The text runs once for equal switches, absent values and
    formats of parameters, at any place: its `g` is a Body, from which it requests weights by the component's
    names; the place maps them to its own.
    """

    def decorate(build: Build) -> Build:
        signature = inspect.signature(build)
        recorded: dict[tuple, list[Recorded]] = {}

        @functools.wraps(build)
        def stand(*given: Any, **named: Any) -> Any:
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            switches = itertools.takewhile(lambda name: name != "g", bound.arguments)
            values, place = _values(bound), bound.arguments["g"]
            key = (
                place.dtype,
                *(bound.arguments[name] for name in switches),
                *((name, value is None) for name, value in values.items()),
                *((name, p.format) for name, p in bound.arguments.items() if isinstance(p, Received)),
            )
            known = recorded.setdefault(key, [])
            function = next((function for function in known if _fits(function, place)), None)
            if function is None:
                function = _record(build, bound, values, outputs)
                known.append(function)
            asked = itertools.chain.from_iterable(
                place.ask(*one[:2]).values.values() for one in function.asked
            )
            result = place.call(function, *values.values(), *asked)
            return (result,) if len(outputs) > 1 and isinstance(result, ir.Value) else result

        return stand

    return decorate


def _fits(function: Recorded, place: Nodes) -> bool:
    """Tell whether the parameters of a function have the same formats at this place."""
    return all(place.ask(name, use).format == known for (name, use, _), known in function.asked.items())


def _values(bound: inspect.BoundArguments) -> dict[str, ir.Value | None]:
    """The arguments after `g`, by their names in the function: `past_k` for past["k"]."""
    values: dict[str, ir.Value | None] = {}
    for name, value in itertools.islice(bound.arguments.items(), list(bound.arguments).index("g") + 1, None):
        if isinstance(value, dict):
            values |= {f"{_prefix(bound, name)}{key}": part for key, part in value.items()}
        elif isinstance(value, Received):
            values |= {"_".join(filter(None, (name, key))): part for key, part in value.values.items()}
        else:
            values[name] = value
    return values


def _prefix(bound: inspect.BoundArguments, name: str) -> str:
    several = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
    return "" if several else f"{name}_"


def _record(
    build: Build, bound: inspect.BoundArguments, values: Mapping[str, ir.Value | None], outputs: Sequence[str]
) -> Recorded:
    """The function that `build` writes for inputs in place of the values."""
    inputs = {name: ir.Value(name=name) for name in values}
    present = {name: None if values[name] is None else inputs[name] for name in values}
    body = Body([*inputs.values()], bound.arguments["g"])
    arguments = dict(bound.arguments) | {"g": body}
    for name, value in arguments.items():
        if isinstance(value, Received):
            own = {key: inputs["_".join(filter(None, (name, key)))] for key in value.values}
            arguments[name] = Received(value.format, own)
        elif isinstance(value, dict):
            arguments[name] = {key: present[f"{_prefix(bound, name)}{key}"] for key in value}
        elif name in present:
            arguments[name] = present[name]
    inner = inspect.BoundArguments(bound.signature, OrderedDict(arguments))
    results = build(*inner.args, **inner.kwargs)
    return body.close(build.__name__, outputs, results if isinstance(results, tuple) else (results,))
