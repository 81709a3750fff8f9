"""The table of tasks."""

from collections.abc import Iterable

from txexport.tasks import METHODS, ROWS, TASKS


def table() -> str:
    """{{ tasks }}: each task with the methods of Model and the commands that serve it."""
    lines = ["| task | methods | commands |", "|---|---|---|"]
    for name in TASKS:
        rows = [row for row in ROWS if row.name == name]
        methods = dict.fromkeys(method for row in rows for method in (*row.methods, *row.related))
        commands = [METHODS[method].command for method in methods if method in METHODS]
        lines.append(f"| {name} | {_listed(methods)} | {_listed(commands)} |")
    return "\n".join(lines)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
