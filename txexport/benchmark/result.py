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
        """The name in reports: "openvino int8, bfloat16, 2 threads"."""
        precision = "" if self.precision == "float32" else f", {self.precision}"
        return f"{self.engine} {self.dtype}{precision}, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Measured:
    """A candidate with the accuracy of its answers and its speed.

    `accuracy` has a number for each measure. `seconds` are medians by workload, `speedup` the reference's
    seconds divided by these. `wrong` is the defect for which it is not chosen, None if there is none.
    """

    candidate: Candidate
    accuracy: dict[str, float]
    seconds: dict[str, float]
    speedup: dict[str, float]
    wrong: str | None

    @property
    def mean_speedup(self) -> float:
        """The geometric mean over workloads."""
        return math.exp(sum(map(math.log, self.speedup.values())) / len(self.speedup))


@dataclass(frozen=True)
class Benchmark:
    """The result of a benchmark; its first candidate is the `reference` of accuracy and speed.

    `candidates` are all that ran; `left_out` has the reason why another did not, by name. `threads` are the
    fastest correct candidate again with fewer threads, the first one with the original number. `chosen` is
    the correct candidate with the greatest mean speedup. `measures` and `works` have a description of each,
    by name; `processors` is the number available.
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
