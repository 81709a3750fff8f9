"""Tasks: a row for each task and architecture, and a record for each method of Model.

Export, runtime, verification, command line, server, batches and documentation read them.
"""

from txexport.spec import Architecture, HeadKind
from txexport.tasks import (
    audio_classification,
    documents,
    feature_extraction,
    generation,
    images,
    masked_lm,
    question_answering,
    text_classification,
    token_classification,
)
from txexport.tasks.feature_extraction import LATE_INTERACTION
from txexport.tasks.task import GlobalTokens, Method, Task

__all__ = [
    "LATE_INTERACTION",
    "METHODS",
    "ROWS",
    "TASKS",
    "GlobalTokens",
    "Method",
    "Task",
    "first_of_head",
    "row_of",
    "served_row",
    "tasks_of_method",
]

# The order counts: the first task of a head is its default, as is the first that a method serves.
GROUPS = (
    feature_extraction,
    text_classification,
    masked_lm,
    token_classification,
    question_answering,
    generation,
    images,
    audio_classification,
    documents,
)
ROWS: tuple[Task, ...] = tuple(row for group in GROUPS for row in group.ROWS)
METHODS: dict[str, Method] = {method.name: method for group in GROUPS for method in group.METHODS}
TASKS: dict[str, Task] = {}  # the first row of each name
for _row in ROWS:
    TASKS.setdefault(_row.name, _row)
BY_ARCHITECTURE = {(row.name, architecture): row for row in ROWS for architecture in row.architectures}


def row_of(task: str, architecture: Architecture) -> Task:
    """The row of a task for an architecture."""
    return BY_ARCHITECTURE[task, architecture]


def served_row(task: str, generates: bool, architecture: str = "") -> Task | None:
    """The row of a task for models that generate tokens, or for others; None if there is none.

    Of several rows it is that of the `architecture`, as a manifest's spec calls it, if that is known.
    """
    rows = [row for row in ROWS if row.name == task and row.caches == generates]
    known = [row for row in rows if architecture.replace("_", "-") in row.architectures]
    return next(iter(known or rows), None)


def tasks_of_method(method: str) -> tuple[str, ...]:
    """The tasks that a method of Model serves; the first is the one to export for."""
    return tuple(dict.fromkeys(row.name for row in ROWS if method in row.methods))


def first_of_head(kind: HeadKind) -> Task:
    """The first task of a head, which reads texts."""
    return next(row for row in ROWS if kind in (row.head, *row.other_heads))
