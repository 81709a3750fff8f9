"""The result of a benchmark."""

import dataclasses
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A way to run a bundle: arguments of `load` on the CPU."""

    engine: str
    dtype: str
    precision: str
    threads: int

    @property
    def name(self) -> str:
        """It in words: "openvino int8, bfloat16, 2 threads"."""
        precision = "" if self.precision == "float32" else f", {self.precision}"
        return f"{self.engine} {self.dtype}{precision}, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Measured:
    """A candidate, how near its answers are to the reference's, and how fast they come.

    `accuracy` has a number a measure, `seconds` are medians by work, `speedup` how many times as fast as the
    reference that is. `wrong` is what keeps it from being chosen, None where nothing does.
    """

    candidate: Candidate
    accuracy: dict[str, float]
    seconds: dict[str, float]
    speedup: dict[str, float]
    wrong: str | None

    @property
    def mean_speedup(self) -> float:
        """The geometric mean over works."""
        return math.exp(sum(map(math.log, self.speedup.values())) / len(self.speedup))


@dataclass(frozen=True)
class Benchmark:
    """Every candidate that could be tried, the first being the `reference` of answers and of speed.

    `left_out` says of the others why not, by name; `threads` are the fastest right one with fewer threads,
    the first with as many as the others had. `chosen` is the one to take: of the right ones that with the
    greatest mean speedup. `measures` and `works` say what each is, `processors` how many there are to use.
    """

    bundle: str
    model_type: str
    task: str
    processors: int
    texts: int
    built_in: bool
    loss: float
    measures: dict[str, str]
    works: dict[str, str]
    candidates: list[Measured]
    threads: list[Measured]
    left_out: dict[str, str]
    chosen: Candidate

    @property
    def call(self) -> str:
        """The Python code that loads the chosen candidate."""
        options = ", ".join(f"{key}={value!r}" for key, value in dataclasses.asdict(self.chosen).items())
        return f"txexport.load({self.bundle!r}, device='cpu', {options})"

    def to_dict(self) -> dict:
        """The whole tree as plain JSON values."""
        return dataclasses.asdict(self)
