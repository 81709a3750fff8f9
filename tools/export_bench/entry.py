"""An entry of the bench: an export with the right verdict, and how it is made."""

from dataclasses import dataclass, field
from typing import Any

from export_bench.edits import Change as OfGraphs
from export_bench.runs import Case
from export_bench.weights import Change as OfWeights

EQUAL, WRONG = "equal", "wrong"
PADDING, POSITIONS, CACHE, WINDOW, SHAPES, WEIGHTS, SETTINGS, PARTS, ROUNDING = (
    "padding",
    "positions",
    "cache",
    "window",
    "shapes",
    "weights",
    "settings",
    "parts",
    "rounding",
)
KINDS = {
    PADDING: "masks of padding that are ignored or read wrongly",
    POSITIONS: "positions, rotations and relative distances",
    CACHE: "past keys and values, and steps",
    WINDOW: "windows of attention, and the causal edge",
    SHAPES: "sizes of the traced example that stayed in the graph",
    WEIGHTS: "weights dropped, transposed, exchanged or changed",
    SETTINGS: "settings of config.json that are not followed",
    PARTS: "parts of the computation left out or replaced, and outputs",
    ROUNDING: "weights or outputs rounded to fewer bits, sold as float32",
}


@dataclass(frozen=True)
class Entry:
    """A right export, or a wrong one: `shown` is an input at which its outputs are not the original's."""

    name: str
    source: str
    what: str
    kind: str = ""
    shown: Case | None = None
    seen: tuple[str, ...] = ()  # where such a fault was met in public
    config: dict[str, Any] = field(default_factory=dict)  # settings of the exported copy alone
    weights: OfWeights | None = None
    graph: OfGraphs | None = None
    keep: tuple[str, ...] = ()  # files besides those of optimum
    options: dict[str, Any] = field(default_factory=dict)  # of txexport.export

    @property
    def verdict(self) -> str:
        """Equal, unless an input shows otherwise."""
        return WRONG if self.shown else EQUAL
