"""Columns of a batch as inputs of a model, and its answers as columns: of NumPy, or of Arrow.

Types are those of `txexport.tasks.METHODS`, in SQL's notation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from txexport.errors import InputError, needed_for, shown

SCALARS = {"float": "float32", "double": "float64", "bigint": "int64", "string": "string"}
VECTOR = "array<float>"


def values(column: Any) -> list:
    """The entries of a column, an array of NumPy or Arrow, as a model takes them."""
    entries = column if isinstance(column, np.ndarray) else column.to_pylist()
    return [entry.tolist() if _is_scalar(entry) or _is_list(entry) else entry for entry in entries]


def _is_scalar(entry: object) -> bool:
    return isinstance(entry, np.generic)


def _is_list(entry: object) -> bool:
    """Return whether an entry is a list of texts; an array of numbers may be an image."""
    return isinstance(entry, np.ndarray) and entry.dtype.kind in "OU"


def plain(answer: Any) -> Any:
    """A transcript as an object of its fields, arrays in an object as lists, masks as run lengths.

    Any other answer is as it was.
    """
    from txexport.runtime.run_lengths import run_lengths
    from txexport.runtime.tasks.transcript import Transcript, to_fields

    if isinstance(answer, list) and answer and isinstance(answer[0], dict) and "mask" in answer[0]:
        return [one | {"mask": run_lengths(one["mask"])} for one in answer]
    if isinstance(answer, list) and answer and isinstance(answer[0], list):
        return [plain(one) for one in answer]
    if isinstance(answer, dict):
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in answer.items()
        }
    return to_fields(answer) if isinstance(answer, Transcript) else answer


def fitted(answers: Sequence, kind: str, method: str) -> list:
    """Answers nested to the depth of their type, and None for each error.

    A text with several masks has an answer one level deeper than a text with one. Raises InputError for
    answers that are deeper than their type.
    """
    depth = 0
    while kind.startswith("array<" * (depth + 1)):
        depth += 1
    result: list = []
    for answer in answers:
        one = None if isinstance(answer, Exception) else answer
        levels = depth if one is None or (isinstance(one, list) and not one) else _depth(one)
        if levels > depth:
            raise InputError(f"{method} gives a row {shown(one)} with these options, expected one {kind}")
        for _ in range(depth - levels):
            one = [one]
        result.append(one)
    return result


def _depth(answer: Any) -> int:
    """The number of nested lists."""
    if isinstance(answer, np.ndarray):
        return answer.ndim
    levels = 0
    while isinstance(answer, list) and answer:
        answer, levels = answer[0], levels + 1
    return levels


def to_numpy(answers: Sequence, kind: str) -> np.ndarray:
    """A NumPy column: vectors of all rows as (B,W), missing numbers as NaN, all else as objects."""
    if kind in ("double", VECTOR) and len(answers) and not any(answer is None for answer in answers):
        return np.array(answers)
    if kind == "double":
        return np.array(answers, np.float64)
    column = np.empty(len(answers), object)
    column[:] = [answer.tolist() if isinstance(answer, np.ndarray) else answer for answer in answers]
    return column


def to_arrow(answers: Sequence, kind: str) -> Any:
    """An Arrow array of the type `kind`, also for empty lists."""
    with needed_for("a column of Arrow"):
        import pyarrow
    return pyarrow.array(answers, arrow_type(kind))


def arrow_type(kind: str) -> Any:
    """The Arrow type for a type of SQL."""
    import pyarrow

    name, _, inner = kind.partition("<")
    inner = inner.removesuffix(">")
    if name == "array":
        return pyarrow.list_(arrow_type(inner))
    if name == "struct":
        fields = (field.split(":", 1) for field in _parts(inner))
        return pyarrow.struct([(field, arrow_type(part)) for field, part in fields])
    return pyarrow.type_for_alias(SCALARS[name])


def _parts(fields: str) -> list[str]:
    """The fields of a struct, by the commas that are not inside of a type."""
    parts, depth = [""], 0
    for character in fields:
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
