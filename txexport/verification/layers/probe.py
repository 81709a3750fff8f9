"""Every component compared with its module while the cases run."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

import numpy as np

from txexport.contracts import roles
from txexport.errors import UnsupportedError
from txexport.formats import NumberFormat
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.verification import bounds
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.plan import PlannedCase
from txexport.verification.cases.runs import Outcome
from txexport.verification.checks import TensorCheck, check_of
from txexport.verification.layers.expand import Place, Point
from txexport.verification.layers.float_rounding import rounding_of
from txexport.verification.layers.result import ComponentCheck, LayerReport, merge
from txexport.verification.layers.rounding import RoundedModules
from txexport.verification.layers.sessions import Components, expected
from txexport.verification.layers.trace import Trace, Traced
from txexport.verification.references.originals import Twin
from txexport.verification.references.reference import Arrays, Reference


class Probe:
    """Comparison of components over all cases that run through it.

    `files` are graphs by role that quantise no activations. If the bundle's own graphs do, by the `formats`
    of their matrices, these are compared too, with modules that round alike.
    """

    def __init__(
        self,
        loaded: LoadedBundle,
        twin: Twin,
        bound: float,
        files: Mapping[str, Path],
        formats: Mapping[str, NumberFormat],
    ):
        self.manifest, self.bound = loaded.manifest, bound
        self.trace = Trace(twin, loaded.manifest.cache)
        self.rounded = RoundedModules(self.trace.modules, formats)
        self.refused: list[str] = []
        self.graphs = self._components(files, loaded.device)
        rounds = any(number_format.rounding is not None for number_format in formats.values())
        stored = {role: loaded.folder / graph.file for role, graph in self.manifest.graphs.items()}
        self.rounding = self._components(stored, loaded.device) if rounds else {}
        self.checks: list[ComponentCheck] = []
        self.probed: set[str] = set()

    def _components(self, files: Mapping[str, Path], device: str) -> dict[str, Components]:
        """The components of each graph; the reason why a graph has none is recorded."""
        result = {}
        for role, file in files.items():
            if role == roles.ALIGNMENT:
                self.refused.append(f"{file.name} repeats the decoder's layers, over all tokens at once")
                continue
            try:
                result[role] = Components(file, self.trace.modules, device)
            except UnsupportedError as error:
                self.refused.append(str(error))
        return result

    def through(self, planned: Sequence[PlannedCase]) -> list[PlannedCase]:
        """The cases, each of which is probed after it has run."""
        return [
            case
            if case.run is None
            else dataclasses.replace(case, run=partial(self._run, case.name, case.run))
            for case in planned
        ]

    def report(self) -> LayerReport:
        """The checks of all cases, graph by graph."""
        order = {role: position for position, role in enumerate(self.manifest.graphs)}
        result = sorted(merge(self.checks), key=lambda check: (check.rounds, order[check.graph]))
        return LayerReport(result, "; ".join(dict.fromkeys(self.refused)) or None)

    def _run(
        self,
        name: str,
        run: Callable[..., list[Outcome]],
        runner: GraphRunner,
        reference: Reference,
        case: object,
    ) -> list[Outcome]:
        runs: list[tuple[str, Arrays]] = []  # role and inputs

        def recorded(graph: str | None = None, /, **inputs: np.ndarray) -> Arrays:
            runs.append((graph or next(iter(self.manifest.graphs)), inputs))
            return runner.run(graph, **inputs)

        outcomes = run(dataclasses.replace(runner, run=recorded), reference, case)
        repeated = name in self.probed  # in float64
        for role, feeds in runs if not repeated else ():
            if role in self.graphs:
                self.checks += self._compare(name, role, feeds)
        self.probed.add(name)
        return outcomes

    def _compare(self, case: str, role: str, feeds: Arrays) -> list[ComponentCheck]:
        """The checks of one run of one graph."""
        graph, traced = self.graphs[role], self.trace.run(role, feeds)
        together = graph.run(feeds, traced, cut=False)
        drifts = {
            _key(point): check_of("", [(together[point.source], truth)], self.bound).error
            for point in graph.together.points
            if point.kind == "output" and (truth := expected(traced, point)) is not None
        }
        result = self._alone(case, role, feeds, traced, graph, drifts)
        if role in self.rounding:
            result += self._alone(case, role, feeds, traced, self.rounding[role], None)
        return result

    def _alone(
        self,
        case: str,
        role: str,
        feeds: Arrays,
        traced: Traced,
        graph: Components,
        drifts: Mapping[Place | str, float] | None,
    ) -> list[ComponentCheck]:
        """The checks of components on the twin's numbers; `drifts` are None if they round activations."""
        alone, points = graph.run(feeds, traced, cut=True), graph.alone.points
        rounded = None if drifts is not None else self.rounded
        components = graph.alone.matched
        errors = [_error(point, alone, traced, self.bound, rounded, components) for point in points]
        if rounded is None:
            pairs = zip(points, errors, strict=True)
            errors = [self._with_rounding(point, check, traced) for point, check in pairs]
        blamed = _makers(points, errors)
        result = []
        for point, check, maker in zip(points, errors, blamed, strict=True):
            result.append(
                ComponentCheck(
                    role,
                    *(maker or (point.component, point.kind, point.name)),
                    check.elements,
                    check.error,
                    drifts.get(_key(point)) if drifts is not None and point.kind == "output" else None,
                    check.tolerance,
                    case,
                    self.manifest.dtype,
                    drifts is None,
                )
            )
        return merge(result)

    def _with_rounding(self, point: Point, check: TensorCheck, traced: Traced) -> TensorCheck:
        """The check of a value that a component computes; float32's rounding may raise its tolerance."""
        if not check.tolerance < check.error <= bounds.MOST or point.place is None:
            return check
        owner = point.component if point.maker is None else point.maker[0]
        if owner != point.place.module and not point.place.module.startswith(f"{owner}."):
            return check
        rounding = rounding_of(self.trace, traced, owner, point.place)
        return dataclasses.replace(check, tolerance=bounds.bound(self.bound, rounding))


def _key(point: Point) -> Place | str:
    """The key of an output that both expansions share."""
    return point.place or point.name


def _error(
    point: Point,
    values: Arrays,
    traced: Traced,
    bound: float,
    rounded: RoundedModules | None,
    components: Set[str],
) -> TensorCheck:
    truth = expected(traced, point)
    if truth is None:  # the graph passes a value that the module does not take
        return TensorCheck(point.name, 0, math.inf, bound)
    found = values[point.source]
    if rounded is not None and point.kind == "output" and point.place is not None:
        call = traced.calls[point.place.module][point.place.call]
        ends = rounded.ends(point.place.module, call, components)
        if ends is not None:
            low, high = (end[point.place.index] for end in ends)
            truth = found.clip(low, high) if found.shape == low.shape else low
    return check_of(point.name, [(found, truth)], bound)


def _makers(points: Sequence[Point], checks: Sequence[TensorCheck]) -> list[tuple[str, str, str] | None]:
    """Component, kind and value that computed a wrong input; None if its receiver took the wrong value.

    A value that is wrong wherever it arrives was computed wrongly. If it is right elsewhere, another one was
    taken.
    """
    right = {p.source for p, check in zip(points, checks, strict=True) if check.error <= check.tolerance}
    result: list[tuple[str, str, str] | None] = []
    for point, check in zip(points, checks, strict=True):
        taken = check.error > check.tolerance and point.source in right
        if point.kind != "input" or point.maker is None or taken:
            result.append(None)
            continue
        component, name = point.maker
        result.append(
            (component, "inside" if point.component.startswith(f"{component}.") else "output", name)
        )
    return result
