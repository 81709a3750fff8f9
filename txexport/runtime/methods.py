"""Functions of a loaded bundle as methods, with their arguments, docstrings and types of results."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.support.arguments import with_new_names

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
FORMER_KEYWORDS = {"adjust": "logits_processor", "rows": "input_ids"}


class HasBundle(Protocol):
    """An object with a loaded bundle."""

    bundle: LoadedBundle


def on_bundle(function: Callable[Concatenate[LoadedBundle, P], R]) -> Callable[Concatenate[HasBundle, P], R]:
    """Make a method of a function whose first argument is a bundle; it passes its object's bundle.

    The former names of its keywords work with a DeprecationWarning.
    """
    parameters = inspect.signature(function).parameters
    renamed = {old: new for old, new in FORMER_KEYWORDS.items() if {new, "options"} & parameters.keys()}

    def method(self: HasBundle, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(self.bundle, *args, **with_new_names(kwargs, renamed))

    return like(function, method)


def like(function: Callable, method: Callable[P, R]) -> Callable[P, R]:
    """Give `method` the name, docstring and signature of `function`, with `self` in place of the bundle."""
    functools.update_wrapper(method, function)
    signature = inspect.signature(function)
    bundle, *others = signature.parameters.values()
    first = bundle.replace(name="self", annotation=inspect.Parameter.empty)
    method.__signature__ = signature.replace(parameters=[first, *others])  # type: ignore[attr-defined]
    return method


def attached(owner: C) -> C:
    """Set the qualified names of the methods that `on_bundle` made, which pickle needs."""
    for name, method in vars(owner).items():
        if inspect.isfunction(method) and hasattr(method, "__wrapped__"):
            named: Any = method
            named.__module__, named.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    return owner
