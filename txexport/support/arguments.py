"""Type checks of public functions: an argument that contradicts its annotation raises an InputError."""

import functools
import inspect
import os
import types
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from txexport.errors import InputError, shown
from txexport.support.paths import LONGEST_NAME

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
NUMBERS: dict[type, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}
PLURALS = {int: "whole numbers", float: "numbers", str: "texts", Path: "paths"}
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def checked(function: F) -> F:
    """Return the function so that an argument of another type than annotated raises InputError."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        bound = signature.bind(*arguments, **keywords)
        _check_types(bound, _hints(function))
        return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


def with_options(options: type) -> Callable[[F], F]:
    """Show the fields of the dataclass `options` in a function's signature, in place of its **kwargs.

    For a function whose ** are Unpack of a TypedDict with the same fields, from which it makes `options`.
    """

    def decorate(function: F) -> F:
        signature, parameter = inspect.signature(function), inspect.Parameter
        fields = inspect.signature(options).parameters.values()
        others = [one for one in signature.parameters.values() if one.kind is not parameter.VAR_KEYWORD]
        keywords = [one for one in others if one.kind is parameter.KEYWORD_ONLY]
        positional = [one for one in others if one.kind is not parameter.KEYWORD_ONLY]
        ordered = [*positional, *(one.replace(kind=parameter.KEYWORD_ONLY) for one in fields), *keywords]
        function.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
        return function

    return decorate


def arguments_from(
    fields: Callable[P, A], renamed: Mapping[str, str] | None = None
) -> Callable[[Callable[[A], R]], Callable[P, R]]:
    """Return a decorator for functions of many arguments, which are declared once, as fields of a dataclass.

        @dataclass(frozen=True)
        class ExportArguments:
            source: str | Path
            out: str | Path
            _: KW_ONLY
            opset: int = 24

        @arguments_from(ExportArguments)
        def export(arguments: ExportArguments) -> Manifest: ...

        export("gpt2", "bundle", opset=21)

    The decorated function takes the fields as arguments: type checkers, `help` and `inspect.signature` see
    them, and their types are checked as by `checked`. `renamed` maps an old keyword to its field; it works
    with a DeprecationWarning.
    """
    assert isinstance(fields, type)
    signature = inspect.signature(fields)

    def decorate(function: Callable[[A], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*arguments: P.args, **keywords: P.kwargs) -> R:
            bound = signature.bind(*arguments, **with_new_names(keywords, renamed or {}))
            _check_types(bound, _hints(fields))
            return function(fields(*bound.args, **bound.kwargs))

        result = inspect.signature(function).return_annotation
        vars(call)["__signature__"] = signature.replace(return_annotation=result)
        call.__annotations__ = _hints(fields) | {"return": result}
        vars(call)["arguments_class"] = fields  # for tools that evaluate the signature
        return call

    return decorate


def with_new_names(keywords: dict[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Replace former names of keywords, each with a warning that points to the caller's caller."""
    for old in keywords.keys() & renamed.keys():
        new = renamed[old]
        if new in keywords:
            raise TypeError(f"{old} is the former name of {new}; pass only {new}")
        warnings.warn(f"{old}= is now {new}=", DeprecationWarning, stacklevel=3)
    return {renamed.get(name, name): value for name, value in keywords.items()}


def _check_types(bound: inspect.BoundArguments, hints: Mapping[str, Any]) -> None:
    """Raise InputError for an argument of the wrong type, and convert NumPy's numbers to Python's."""
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if name not in hints or name == "self" or kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
            continue
        if not _fits(value, hints[name]):
            raise InputError(f"{name} is {shown(value)}, expected {_named(hints[name])}")
        if Path in get_args(hints[name]) and isinstance(value, str | os.PathLike):
            _check_path(name, value)
        if isinstance(value, np.generic):  # JSON supports Python's numbers only
            bound.arguments[name] = value.item()


def _check_path(name: str, value: str | os.PathLike) -> None:
    """Raise InputError for a path that is empty, or that file systems do not support."""
    if not os.fspath(value):
        raise InputError(f"{name} is empty, expected a path")
    if any(len(part) > LONGEST_NAME for part in Path(value).parts):
        raise InputError(f"{name} is {shown(value)}, expected names of at most {LONGEST_NAME} characters")


def is_whole(value: object, low: int, high: int | None = None) -> bool:
    """Tell whether `value` is an integer, also of NumPy, from `low` up to `high`, and no bool."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and low <= value and (high is None or value <= high)  # type: ignore[operator]


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise InputError unless `value` is a whole number of at least `least`."""
    if not is_whole(value, least):
        raise InputError(f"{name} is {shown(value)}, expected a whole number of at least {least}")


def check_flag(name: str, value: object) -> None:
    """Raise InputError unless `value` is true, false or None."""
    if not isinstance(value, bool | np.bool_ | None):
        raise InputError(f"{name} is {shown(value)}, expected true or false")


def check_fields(entry: Any) -> None:
    """Raise TypeError for a field of a dataclass whose value contradicts its annotation."""
    kind: Any = type(entry)
    for name, hint in _hints(kind).items():
        if not _fits(getattr(entry, name), hint):
            raise TypeError(f"{name} is {shown(getattr(entry, name))}, expected {_named(hint)}")


@functools.cache
def _hints(annotated: Any) -> dict[str, Any]:
    return get_type_hints(annotated)


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value has an annotation's type; annotations that are no plain types accept all."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is not None and issubclass(origin, Callable):  # type: ignore[arg-type]
        return callable(value)
    if origin is not None and issubclass(origin, Mapping):
        pairs = (
            value.items() if isinstance(value, dict) else ()
        )  # other mappings, such as an .npz, may read files for it
        return isinstance(value, Mapping) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in pairs)
    if origin is tuple:
        return isinstance(value, tuple | list) and len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is not None and issubclass(origin, Sequence):
        plain = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
        plain = plain or (isinstance(value, np.ndarray) and value.ndim > 0)
        return plain and all(_fits(one, inner[0]) for one in value)
    if hint in NUMBERS:
        return isinstance(value, NUMBERS[hint]) and (hint is bool or not isinstance(value, bool))
    if hint is Path:
        return isinstance(value, os.PathLike)
    return not isinstance(hint, type) or isinstance(value, hint)


def _named(hint: Any) -> str:
    """The name of an annotation for messages."""
    if hint is None or hint is type(None):
        return "None"
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_named, inner)))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is not None and issubclass(origin, Callable):  # type: ignore[arg-type]
        return "a function"
    if origin is not None and issubclass(origin, Mapping):
        return f"{_named(inner[1])} by name"
    if origin is tuple:
        return f"({', '.join(map(_named, inner))})"
    if origin is not None and issubclass(origin, Sequence):
        return f"a list of {_several(inner[0])}"
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _several(hint: Any) -> str:
    """The name of values of an annotation for messages."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_several, inner)))
    if origin is not None and origin is not tuple and issubclass(origin, Sequence):
        return f"lists of {_several(inner[0])}"
    return PLURALS.get(hint) or _named(hint)
