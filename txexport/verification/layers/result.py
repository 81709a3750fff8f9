"""What the comparison of components found; no model is needed to read it."""

import dataclasses
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from txexport.formats import DEFAULT

# The columns of a report: the parts of a layer, every other part among its norms, and last the layer without
# its parts, or what is of no layer.
COLUMNS = ("attention", "cross_attention", "feed_forward", "norms", "itself")
STACKS = ("encoder", "decoder", "text", "vision")


@dataclass(frozen=True)
class ComponentCheck:
    """One value of one component: the worst of all cases.

    `component` is the module's name in the twin, as encoder.layers.5.attention.q, or that of the graph's call
    where the component has no parameters, as mask. `error` is the component's own: its module and it were
    given the same numbers, the twin's. `accumulated` is that of the value in the whole graph, with what the
    components before it add; None where it is not a component's output. `kind` is "output", "inside" for a
    value that a component passes on to a part of itself, or "input" for one that the graph brings to it
    from elsewhere. `case` is the one with the largest own error. `dtype` is what the graph's numbers are, and
    `rounds` whether it rounded activations as it does, and was held against the module doing so; else it
    computed with the numbers that are stored, and nothing else was rounded.
    """

    graph: str
    component: str
    kind: str
    value: str
    elements: int
    error: float
    accumulated: float | None
    tolerance: float
    case: str
    dtype: str = DEFAULT
    rounds: bool = False

    @property
    def ok(self) -> bool:
        """Whether the component's own error is within tolerance."""
        return self.error <= self.tolerance

    @property
    def drifted(self) -> bool:
        """Whether the value is known to be beyond the budget in the whole graph."""
        return self.accumulated is not None and self.accumulated > self.tolerance

    @property
    def stack(self) -> str | None:
        """The stack that the component is of: encoder, decoder, text or vision; None for what is of none."""
        return self._place[0]

    @property
    def layer(self) -> int | None:
        """The number of its layer, from 0; None for what is of no layer."""
        return self._place[1]

    @property
    def part(self) -> str:
        """Its name within the layer, as attention.q; "block" for the layer itself; or its whole name."""
        return self._place[2]

    @property
    def _place(self) -> tuple[str | None, int | None, str]:
        match = re.fullmatch(r"(\w+)\.layers\.(\d+)(?:\.(.+))?", self.component)
        if match is not None:
            return match[1], int(match[2]), match[3] or "block"
        match = re.fullmatch(r"cross\.(\d+)(\..+)?", self.component)
        if match is not None:  # what an encoder's graph computes for a layer of the decoder
            return "decoder", int(match[1]), self.component.replace(match[1], "key_value", 1)
        return None, None, self.component

    @property
    def column(self) -> str:
        """Which of COLUMNS it belongs to."""
        first = self.part.split(".")[0]
        if self.layer is None or first == "block":
            return "itself"
        if first in COLUMNS:
            return first
        return "cross_attention" if first == "cross" else "norms"

    @property
    def where(self) -> str:
        """Layer and component, in words."""
        if self.layer is None:
            return self.component
        part = "the block itself" if self.part == "block" else self.part
        return f"layer {self.layer} of the {self.stack}, {part}"

    @property
    def what(self) -> str:
        """Which value of it, in words."""
        value = f"{self.kind} {self.value}" if self.kind != "inside" else f"{self.value} inside"
        return f"{value} with activations rounded" if self.rounds else value

    @property
    def of(self) -> str:
        """Which graph, and the dtype where that is not float32."""
        return self.graph if self.dtype == DEFAULT else f"{self.graph}, {self.dtype}"

    def merged(self, other: "ComponentCheck") -> "ComponentCheck":
        """The worst of both, which are of one value over several cases."""
        worse = other if other.error > self.error else self
        both = [check.accumulated for check in (self, other) if check.accumulated is not None]
        return dataclasses.replace(
            worse, elements=self.elements + other.elements, accumulated=max(both, default=None)
        )


@dataclass(frozen=True)
class LayerReport:
    """Every component's errors, in the order in which the graphs compute them; or why there are none.

    `skipped` says why components could not be compared, or which graph's could not.
    """

    checks: list[ComponentCheck] = field(default_factory=list)
    skipped: str | None = None

    @property
    def beyond(self) -> list[ComponentCheck]:
        """What exceeds its budget, in the order of computing."""
        return [check for check in self.checks if not check.ok]

    @property
    def first(self) -> ComponentCheck | None:
        """The first that exceeds its budget."""
        return next(iter(self.beyond), None)

    @property
    def summary(self) -> str:
        """In a line: the first component that is wrong, or that none is."""
        first = self.first
        if first is not None:
            more = len({check.component for check in self.beyond}) - 1
            others = f"; {more} other components are too" if more else ""
            return (
                f"first beyond its budget: {first.where}, {first.what}: off by {digits(first.error)}"
                f" of {digits(first.tolerance)} in case '{first.case}' ({first.of}){others}"
            )
        if not self.checks:
            return f"components were not compared: {self.skipped or 'no chosen case runs a graph'}"
        drifted = self.drifted
        names = len({check.component for check in self.checks})
        if drifted is None:
            return f"{names} components compared, each within its budget"
        return (
            f"{names} components compared, each within its budget alone; together they are beyond it from"
            f" {drifted.where}, {drifted.what} on: {digits(drifted.accumulated or 0.0)}"
        )

    @property
    def drifted(self) -> ComponentCheck | None:
        """The first value that is beyond the budget in the whole graph."""
        return next((check for check in self.checks if check.drifted), None)

    def rows(self) -> dict[str, list[ComponentCheck]]:
        """Checks by a label for their layer, or for their component where it is of no layer."""
        result: dict[str, list[ComponentCheck]] = {}
        for check in self.checks:
            names = check.component.split(".")
            label = ".".join(names[: 2 if names[0] in STACKS else 1])
            if check.layer is not None:
                crossed = ", cross keys and values" if names[0] == "cross" else ""
                label = f"{check.stack} {check.layer}{crossed}"
            if check.dtype != DEFAULT:
                label = f"{check.dtype}: {label}"
            result.setdefault(label, []).append(check)
        return result

    def to_dict(self) -> dict:
        """Plain JSON values, as schema.json describes."""
        checks = []
        for check in self.checks:
            values = dataclasses.asdict(check)
            values |= {name: _finite(values[name]) for name in ("error", "accumulated")}
            places = {"stack": check.stack, "layer": check.layer, "part": check.part}
            checks.append(values | places | {"ok": check.ok, "drifted": check.drifted})
        first = None if self.first is None else self.checks.index(self.first)
        return {"skipped": self.skipped, "first": first, "checks": checks}

    @classmethod
    def from_dict(cls, values: dict) -> "LayerReport":
        """The report that `to_dict` gave."""
        names = [entry.name for entry in dataclasses.fields(ComponentCheck)]
        checks = []
        for record in values["checks"]:
            own = {name: record[name] for name in names}
            own["error"] = math.inf if own["error"] is None else own["error"]
            if own["accumulated"] is None and record.get("drifted"):
                own["accumulated"] = math.inf
            checks.append(ComponentCheck(**own))
        return cls(checks, values["skipped"])


def joined(reports: Iterable[LayerReport]) -> LayerReport | None:
    """The reports of several dtypes as one; None where there are none."""
    several = [*reports]
    if not several:
        return None
    skipped = dict.fromkeys(report.skipped for report in several if report.skipped is not None)
    checks = [check for report in several for check in report.checks]
    return LayerReport(checks, "; ".join(skipped) or None)


def digits(error: float) -> str:
    """An error, in a digit."""
    return f"{error:.0e}" if math.isfinite(error) else "not finite"


def merge(checks: Iterable[ComponentCheck]) -> list[ComponentCheck]:
    """One check a value, in the order in which they first came."""
    result: dict[tuple, ComponentCheck] = {}
    for check in checks:
        key = (check.dtype, check.rounds, check.graph, check.component, check.kind, check.value)
        result[key] = result[key].merged(check) if key in result else check
    return list(result.values())


def _finite(error: float | None) -> float | None:
    return error if error is None or math.isfinite(error) else None
