"""A benchmark as a plain SVG."""

from txexport.benchmark.result import Benchmark
from txexport.dtype_comparison.plot import drawn, times
from txexport.dtype_comparison.table import measured


def svg(result: Benchmark) -> str:
    """A group of bars for every workload, then the measures as numbers; fewer threads last."""
    shown = [*result.candidates, *result.threads[1:]]
    marks = {True: " (wrong)", False: ""}
    names = [f"{one.candidate.name}{marks[one.wrong is not None]}" for one in shown]
    accuracy = {name: [measured(name, one.accuracy[name]) for one in shown] for name in result.measures}
    return drawn(names, times(result.works, [one.seconds for one in shown]), accuracy)
