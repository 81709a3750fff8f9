"""The checks of components, and their report; reading it needs no model."""

import dataclasses
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from txexport.formats import DEFAULT

# The columns of a report: the parts of a layer, other parts as norms, and last the layer itself or components
# outside of layers.
COLUMNS = ("attention", "cross_attention", "feed_forward", "norms", "itself")
STACKS = ("encoder", "decoder", "text", "vision")


@dataclass(frozen=True)
class ComponentCheck:
    """One value of one component: the worst of all cases.

    `component` is the module's name in the twin, as encoder.layers.5.attention.q, or that of the graph's call
    if it has no parameters, as mask. `error` is the component's own: module and component had the twin's
    numbers as inputs. `accumulated` is the error of the value in the whole graph, with those of earlier
    components; None unless the value is an output. `kind` is "output", "inside" for a value that a component
    passes to a part of itself, or "input" for one that the graph passes to it from elsewhere. `case` has the
    largest own error, in tolerances. `dtype` is that of the graph. `rounds` is true if component and module
    both quantised activations as the format does; otherwise they computed with the stored numbers, and
    quantised nothing.
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
        """True if the component's own error is within tolerance."""
        return self.error <= self.tolerance

    @property
    def drifted(self) -> bool:
        """True if the value is over the tolerance in the whole graph."""
        return self.accumulated is not None and self.accumulated > self.tolerance

    @property
    def stack(self) -> str | None:
        """The component's stack: encoder, decoder, text or vision; None if it is in none."""
        return self._place[0]

    @property
    def layer(self) -> int | None:
        """The number of its layer, from 0; None if it is in none."""
        return self._place[1]

    @property
    def part(self) -> str:
        """Its name within the layer, as attention.q; "block" for the layer itself; else its full name."""
        return self._place[2]

    @property
    def _place(self) -> tuple[str | None, int | None, str]:
        match = re.fullmatch(r"(\w+)\.layers\.(\d+)(?:\.(.+))?", self.component)
        if match is not None:
            return match[1], int(match[2]), match[3] or "block"
        match = re.fullmatch(r"cross\.(\d+)(\..+)?", self.component)
        if match is not None:  # keys and values that an encoder's graph computes for a layer of the decoder
            return "decoder", int(match[1]), self.component.replace(match[1], "key_value", 1)
        return None, None, self.component

    @property
    def column(self) -> str:
        """The one of COLUMNS that it belongs to."""
        first = self.part.split(".")[0]
        if self.layer is None or first == "block":
            return "itself"
        if first in COLUMNS:
            return first
        return "cross_attention" if first == "cross" else "norms"

    @property
    def where(self) -> str:
        """Layer and component in words."""
        if self.layer is None:
            return self.component
        part = "the block itself" if self.part == "block" else self.part
        return f"layer {self.layer} of the {self.stack}, {part}"

    @property
    def what(self) -> str:
        """The value in words."""
        value = f"{self.kind} {self.value}" if self.kind != "inside" else f"{self.value} inside"
        return f"{value} with activations rounded" if self.rounds else value

    @property
    def of(self) -> str:
        """The graph, with the dtype unless it is float32."""
        return self.graph if self.dtype == DEFAULT else f"{self.graph}, {self.dtype}"

    def merged(self, other: "ComponentCheck") -> "ComponentCheck":
        """The worst of two checks of one value in different cases."""
        worse = other if other.error / other.tolerance > self.error / self.tolerance else self
        both = [check.accumulated for check in (self, other) if check.accumulated is not None]
        return dataclasses.replace(
            worse, elements=self.elements + other.elements, accumulated=max(both, default=None)
        )


@dataclass(frozen=True)
class LayerReport:
    """The checks of every component, in the order in which the graphs compute them.

    `skipped` says why components could not be compared, or those of which graph.
    """

    checks: list[ComponentCheck] = field(default_factory=list)
    skipped: str | None = None

    @property
    def beyond(self) -> list[ComponentCheck]:
        """The checks over their tolerance, in the order of execution."""
        return [check for check in self.checks if not check.ok]

    @property
    def first(self) -> ComponentCheck | None:
        """The first check over its tolerance."""
        return next(iter(self.beyond), None)

    @property
    def summary(self) -> str:
        """The first wrong component in a line, or that there is none."""
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
            f"{names} components compared, each within its budget by itself; together they exceed it from"
            f" {drifted.where}, {drifted.what} on: {digits(drifted.accumulated or 0.0)}"
        )

    @property
    def drifted(self) -> ComponentCheck | None:
        """The first value over the tolerance in the whole graph."""
        return next((check for check in self.checks if check.drifted), None)

    def rows(self) -> dict[str, list[ComponentCheck]]:
        """Checks by a label for their layer, or for their component if it is in none."""
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
        """The report as JSON values, as in schema.json."""
        checks = []
        for check in self.checks:
            values = dataclasses.asdict(check)
            values |= {name: _finite(values[name]) for name in ("error", "accumulated")}
            place = {"stack": check.stack, "layer": check.layer, "part": check.part}
            checks.append(values | place | {"ok": check.ok, "drifted": check.drifted})
        first = None if self.first is None else self.checks.index(self.first)
        return {"skipped": self.skipped, "first": first, "checks": checks}

    @classmethod
    def from_dict(cls, values: dict) -> "LayerReport":
        """The report of the values of `to_dict`."""
        names = [entry.name for entry in dataclasses.fields(ComponentCheck)]
        checks = []
        for record in values["checks"]:
            fields = {name: record[name] for name in names}
            fields["error"] = math.inf if fields["error"] is None else fields["error"]
            if fields["accumulated"] is None and record.get("drifted"):
                fields["accumulated"] = math.inf
            checks.append(ComponentCheck(**fields))
        return cls(checks, values["skipped"])


def joined(reports: Iterable[LayerReport]) -> LayerReport | None:
    """The reports of several dtypes as one; None for none."""
    reports = [*reports]
    if not reports:
        return None
    skipped = dict.fromkeys(report.skipped for report in reports if report.skipped is not None)
    checks = [check for report in reports for check in report.checks]
    return LayerReport(checks, "; ".join(skipped) or None)


def digits(error: float) -> str:
    """An error with one digit."""
    return f"{error:.0e}" if math.isfinite(error) else "not finite"


def merge(checks: Iterable[ComponentCheck]) -> list[ComponentCheck]:
    """One check for each value, in the order in which they first came."""
    result: dict[tuple, ComponentCheck] = {}
    for check in checks:
        key = (check.dtype, check.rounds, check.graph, check.component, check.kind, check.value)
        result[key] = result[key].merged(check) if key in result else check
    return list(result.values())


def _finite(error: float | None) -> float | None:
    return error if error is None or math.isfinite(error) else None
