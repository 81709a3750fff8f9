"""Specs as JSON values, and back."""

import dataclasses
import math
import types
import typing
from enum import StrEnum

from txexport.errors import SpecError

LEAVES: dict[type, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,)}
LARGEST = 2**31 - 1


def to_dict(spec: object) -> dict:
    """`spec` as plain JSON values."""
    return dataclasses.asdict(spec)  # type: ignore[call-overload]


def from_dict(kind: type, values: dict):
    """The inverse of `to_dict`: a spec of type `kind`. Raises SpecError for unknown or missing fields."""
    hints = typing.get_type_hints(kind)
    unknown = set(values) - set(hints)
    if unknown:
        raise SpecError(f"{kind.__name__}: unknown fields {', '.join(sorted(unknown))}")
    try:
        return kind(**{name: _restore(hints[name], value) for name, value in values.items()})
    except (TypeError, ValueError) as error:
        raise SpecError(f"{kind.__name__}: {error}") from None


def _restore(hint: typing.Any, value: typing.Any) -> typing.Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType):
        return _restore(
            _meant([part for part in typing.get_args(hint) if part is not types.NoneType], value), value
        )
    if typing.get_origin(hint) is tuple:
        return tuple(_restore(typing.get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_dict(hint, value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    if hint in LEAVES and not (type(value) in LEAVES[hint] and _is_possible(value)):
        raise SpecError(f"{value!r:.60} is no {hint.__name__}, or too large")
    return value


def _is_possible(value: float) -> bool:
    """Tell whether a number is finite, and a whole one of 32 bits."""
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST


def _meant(kinds: list, value: dict) -> typing.Any:
    """Of several spec types, the one that has the fields of `value`, and needs no others."""
    if len(kinds) == 1:
        return kinds[0]
    for kind in kinds:
        fields = dataclasses.fields(kind)
        needed = {f.name for f in fields if f.default is dataclasses.MISSING}
        if needed <= set(value) <= {f.name for f in fields}:
            return kind
    raise SpecError(f"no spec has the fields {', '.join(value)}")
