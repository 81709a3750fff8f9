"""A summary of all mutants."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fuzzing.known import Known, known
from fuzzing.worker import OUTSIDE, Mutant, Result

WIDTH = 300


def command(mutant: Mutant) -> str:
    """The command that repeats a mutant."""
    return f"tools/fuzz --target {mutant.target} --only {mutant.seed}/{mutant.index}"


def place(mutant: Mutant, result: Result) -> str:
    """The location of a fault; without a frame of ours, its target."""
    return result.where if result.where != OUTSIDE else f"{OUTSIDE}, {mutant.target}"


def line(mutant: Mutant, result: Result) -> str:
    """A fault, and the command that repeats it."""
    notes = "; ".join(result.notes)
    shown = notes if len(notes) <= WIDTH else f"{notes[: WIDTH - 3]}..."
    fault = (result.fault or "")[:WIDTH]
    return f"{mutant.target} {mutant.index}: {shown}: {fault} ({result.where})\n  {command(mutant)}"


@dataclass
class Summary:
    """Counts, and the first mutant of each distinct fault; faults of one kind at one location are equal."""

    seconds: float = 0.0
    mutants: Counter[str] = field(default_factory=Counter)
    times: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    slowest: tuple[float, Mutant | None] = (0.0, None)
    faults: dict[tuple[str, str], list[tuple[Mutant, Result]]] = field(default_factory=dict)
    limits: Counter[Known] = field(default_factory=Counter)

    def add(self, mutant: Mutant, result: Result) -> None:
        """Another one."""
        self.mutants[mutant.target] += 1
        self.times[mutant.target] += result.seconds
        if result.seconds > self.slowest[0]:
            self.slowest = result.seconds, mutant
        if result.fault is None:
            return
        if (limit := known(mutant, result)) is not None:
            self.limits[limit] += 1
            return
        key = result.fault.split(":")[0], place(mutant, result)
        self.faults.setdefault(key, []).append((mutant, result))

    def text(self) -> str:
        """The summary as text."""
        lines, count = [], sum(map(len, self.faults.values()))
        for limit, times in self.limits.items():
            lines.append(f"known limit, {times} times: {limit.target}: {limit.fault}: {limit.reason}")
        ordered = sorted(self.faults.items(), key=lambda item: (item[0][1], -len(item[1])))
        for (kind, where), cases in ordered:
            lines.append(f"{len(cases)} times: {kind} at {where}\n  {command(cases[0][0])}")
        each = [f"{name} {number} ({self.times[name]:.0f} s)" for name, number in self.mutants.items()]
        lines.append(", ".join(each))
        if self.slowest[1] is not None:
            lines.append(f"slowest: {self.slowest[0]:.1f} s, {command(self.slowest[1])}")
        total = f"{self.mutants.total():,} mutants in {self.seconds:.0f} s"
        lines.append(f"{total}: " + (f"{count} faults, {len(self.faults)} distinct" if count else "no fault"))
        return "\n".join(lines)
