"""A benchmark, for a terminal."""

from rich.console import Group
from rich.text import Text

from txexport.benchmark.result import Benchmark, Measured
from txexport.dtype_comparison.table import duration, measured
from txexport.support.terminal import FittedTable, number


def render(result: Benchmark) -> Group:
    """A row for each candidate, the ones with fewer threads, the choice, and a legend of the columns."""
    works = list(result.works)
    columns = [number(name) for name in (*works, "speed", *result.measures)]
    table = FittedTable("", *columns, "")
    for one in result.candidates:
        table.add_row(*_row(result, one), _verdict(result, one))
    if result.threads:
        table.add_section()
    for one in result.threads[1:]:  # the first stands above
        table.add_row(*_row(result, one), _verdict(result, one))
    texts = f", {result.texts} {'built-in sentences' if result.built_in else 'texts'}" if result.texts else ""
    title = f"{result.bundle}: {result.model_type}, {result.task}, {result.processors} processors{texts}"
    notes = [f"{name}: {message}" for name, message in (result.works | result.measures).items()]
    reference = result.candidates[0].candidate.name
    notes.append(f"speed: how many times as fast as {reference}, the geometric mean")
    notes += [f"left out {name}: {why}" for name, why in result.left_out.items()]
    return Group(Text(title), table, *map(Text, notes), Text(f"\ntake {result.call}"))


def _row(result: Benchmark, one: Measured) -> list[str]:
    times = [duration(one.seconds[name]) for name in result.works]
    accuracy = [measured(name, one.accuracy[name]) for name in result.measures]
    return [one.candidate.name, *times, f"x{one.mean_speedup:.2f}", *accuracy]


def _verdict(result: Benchmark, one: Measured) -> str:
    if one.wrong is not None:
        return f"wrong: {one.wrong}"
    return "take this" if one.candidate == result.chosen else ""
