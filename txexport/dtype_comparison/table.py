"""A comparison of dtypes, for a terminal."""

from rich.console import Group
from rich.filesize import decimal
from rich.text import Text

from txexport.dtype_comparison.accuracy import CHANGE, COSINE, PERPLEXITY, WORST
from txexport.dtype_comparison.result import DtypeComparison
from txexport.support.terminal import FittedTable, number

NUMBERS = {COSINE: ".5f", WORST: ".5f", PERPLEXITY: ".4g", CHANGE: "+.2%"}  # other measures are shares


def render(result: DtypeComparison) -> Group:
    """A column for each dtype, and a legend of the rows."""
    table = FittedTable("", *(number(one.dtype) for one in result.dtypes))
    reference_bytes = result.dtypes[0].bytes
    table.add_row(
        "size", *(f"{decimal(one.bytes)} ({one.bytes / reference_bytes:.0%})" for one in result.dtypes)
    )
    for name in result.measures:
        table.add_row(name, *(measured(name, one.accuracy[name]) for one in result.dtypes))
    for name in result.works:
        times = ((duration(one.seconds[name]), one.speedup[name]) for one in result.dtypes)
        table.add_row(name, *(f"{time} (x{speedup:.2f})" for time, speedup in times))
    threads = "" if result.threads is None else f", {result.threads} threads"
    texts = f", {result.texts} {'built-in sentences' if result.built_in else 'texts'}" if result.texts else ""
    title = f"{result.bundle}: {result.model_type}, {result.task}, beside {result.reference}"
    notes = [f"{name}: {message}" for name, message in (result.measures | result.works).items()]
    return Group(Text(f"{title}, on {result.device}{threads}{texts}"), table, *map(Text, notes))


def measured(name: str, value: float) -> str:
    """A measure formatted as a number or a percentage."""
    return format(value, NUMBERS.get(name, ".1%"))


def duration(seconds: float) -> str:
    """Seconds with three digits, in a unit that fits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
