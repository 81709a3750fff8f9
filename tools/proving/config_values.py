"""Other values for each key of a configuration."""

import re
import typing
from collections.abc import Iterator
from typing import Any

from transformers.activations import ACT2FN

Path = tuple[str, ...]
NAMES = {"architectures", "model_type", "transformers_version", "dtype", "auto_map", "_name_or_path"}
ACTIVATIONS = ("relu", "gelu", "gelu_new", "silu")
SEEN = 0.01  # an epsilon that shows in a tiny model's numbers
UNSET = {"int": (3,), "float": (0.5,), "bool": (True,), "str": ("other",), "dict": ({"other": 1},)}
ENTRIES = re.compile(r"(id2label|label2id|.*_token_map|.*lang_to_id)")


def changes(config: Any, values: dict[str, Any], within: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The path of each key in the `values` of a transformers `config`, with each of its other values."""
    for key, value in values.items():
        if key in NAMES:
            continue
        if isinstance(value, dict) and value and not ENTRIES.fullmatch(key):
            inner = getattr(config, key, None)
            yield from changes(inner if hasattr(inner, "to_dict") else None, value, (*within, key))
            continue
        for other in others(value, _annotation(config, key)):
            yield (*within, key), other


def changed(values: dict[str, Any], path: Path, other: Any) -> dict[str, Any]:
    """The `values` with another value at a path."""
    key, *rest = path
    return values | {key: changed(values[key], tuple(rest), other) if rest else other}


def others(value: Any, annotation: Any) -> list[Any]:
    """Other values for one, of the types of its annotation, which may be None."""
    literals = [one for one in _literals(annotation) if one != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value // 2] if value > 1 else [value + 1]
    if isinstance(value, float):
        return [value * 1.5 if abs(value) >= SEEN else 0.5 if value == 0 else SEEN]
    if isinstance(value, str):
        if value in ACT2FN:
            return [next(one for one in ACTIVATIONS if one != value), f"{value}x"]
        return [*literals[:3], f"{value}x"]
    if isinstance(value, list):
        return _lists(value)
    if isinstance(value, dict):
        return [dict(list(value.items())[:-1])] if value else [{"other": 1}]
    return literals[:3] or [one for name in _types(annotation) for one in UNSET.get(name, ())] or [1]


def _lists(value: list[Any]) -> list[Any]:
    """Other lists: one shorter, one with its first entry changed, and one in another order."""
    if not value:
        return [[1]]
    first = [[one, *value[1:]] for one in others(value[0], None)[:1]]
    turned = [*value[1:], value[0]]
    return [value[:-1], *first, *([turned] if turned != value else [])]


def _annotation(config: Any, key: str) -> Any:
    """The annotation of a key in the class of a config; None where there is none."""
    for one in type(config).__mro__:
        if key in vars(one).get("__annotations__", {}):
            return one.__annotations__[key]
    return None


def _types(annotation: Any) -> list[str]:
    """The names of the plain types that an annotation admits."""
    parts = typing.get_args(annotation) or (annotation,)
    named = [getattr(one, "__name__", str(one)) for one in parts]
    return [one for one in named if one in UNSET]


def _literals(annotation: Any) -> list[Any]:
    """The values that an annotation lists."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return [*parts]
    return [value for one in parts for value in _literals(one)]
