"""The tables of tasks, and of other names."""

from collections.abc import Iterable

from txexport.support.aliases import DTYPES
from txexport.support.aliases import TASKS as TASKS_ALSO
from txexport.tasks import METHODS, ROWS, TASKS


def table() -> str:
    """Each task with the methods of Model and the commands that serve it."""
    lines = ["| task | methods | commands |", "|---|---|---|"]
    for name in TASKS:
        rows = [row for row in ROWS if row.name == name]
        methods = dict.fromkeys(method for row in rows for method in (*row.methods, *row.related))
        commands = [METHODS[method].command for method in methods if method in METHODS]
        lines.append(f"| {name} | {_listed(methods)} | {_listed(commands)} |")
    return "\n".join(lines) + "\n"


def other_names() -> str:
    """{{ aliases }}: the other names of tasks and dtypes."""
    lines = ["| name | also |", "|---|---|"]
    for aliases in (DTYPES, TASKS_ALSO):
        for name in dict.fromkeys(aliases.values()):
            also = [alias for alias, canonical in aliases.items() if canonical == name]
            lines.append(f"| `{name}` | {_listed(also)} |")
    return "\n".join(lines)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
