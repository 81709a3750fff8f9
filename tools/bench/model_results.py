"""The results of `models.py`: medians of times and of ratios, and a plot of them."""

import operator
import statistics
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Result:
    """Median seconds of one measurement by runtime, and the number of tokens generated.

    `ratios` are medians of the others' time in a turn as a multiple of the first's in that turn. `differ`
    names the runtimes whose tokens are not those of the first.
    """

    name: str
    seconds: dict[str, float]
    ratios: dict[str, float]
    tokens: int
    differ: list[str]

    def line(self) -> str:
        """The time of the first, then the others with their ratios."""
        (first, time), *others = self.seconds.items()
        parts = [f"{self.name:28} {first} {self._said(time)}"]
        for name, seconds in others:
            mark = "*" if name in self.differ else ""
            parts.append(f"{name}{mark} {self._said(seconds)} (x{self.ratios[name]:.3f})")
        return "   ".join(parts)

    def _said(self, seconds: float) -> str:
        return f"{self.tokens / seconds:7.1f} tokens/s" if self.tokens > 1 else f"{seconds * 1e3:7.1f} ms"


@dataclass
class Runs:
    """The runs of a case by runtime: the seconds of all, and the tokens of the last."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)

    def result(self, name: str, tokens: int) -> Result:
        """Medians of all runs, and of their ratios."""
        first = next(iter(self.tokens.values()), [])
        differ = [runtime for runtime, row in self.tokens.items() if row != first]
        medians = {runtime: statistics.median(values) for runtime, values in self.seconds.items()}
        reference, *_ = self.seconds.values()
        ratios = {
            runtime: statistics.median(map(operator.truediv, values, reference))
            for runtime, values in self.seconds.items()
        }
        return Result(name, medians, ratios, tokens, differ)


def plot(results: list[Result], path: Path) -> None:
    """A bar chart of the others' ratios."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    first = next(iter(results[0].seconds))
    others = list(dict.fromkeys(name for result in results for name in result.seconds if name != first))
    colors = dict(zip(others, pyplot.get_cmap("tab10").colors, strict=False))
    bars = [
        (result.name, runtime, result.seconds[runtime] / result.seconds[first])
        for result in reversed(results)
        for runtime in reversed(others)
        if {runtime, first} <= result.seconds.keys()
    ]
    figure, axes = pyplot.subplots(figsize=(8, 0.28 * len(bars) + 1.2), layout="constrained")
    for place, (_, runtime, ratio) in enumerate(bars):
        axes.barh(place, ratio, color=colors[runtime])
        axes.text(ratio, place, f" {ratio:.2f}", va="center", fontsize=8)
    names = [name for name, _, _ in bars]
    shown = [name if name != (["", *names])[i] else "" for i, name in enumerate(names)]
    axes.set_yticks(range(len(bars)), shown)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel(f"time, as a multiple of {first}'s (log scale)")
    axes.set_xscale("log")
    axes.margins(x=0.1)
    patches = [pyplot.Rectangle((0, 0), 1, 1, color=colors[name]) for name in others]
    figure.legend(patches, others, loc="outside upper center", ncols=len(others))
    figure.savefig(path, dpi=120)
