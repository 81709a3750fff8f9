"""Heads of stacks: each file of this folder defines one, its HEAD."""

import pkgutil
from importlib import import_module

from txexport.parts.part import Head
from txexport.spec import HeadSpec

FILES = [one.name for one in pkgutil.iter_modules(__path__) if not one.name.startswith("_")]
EVERY: tuple[Head, ...] = tuple(import_module(f"{__name__}.{file}").HEAD for file in FILES)
OF_KIND: dict[str, Head] = {one.kind: one for one in EVERY}


def head_of(spec: HeadSpec) -> Head:
    """The head that a spec describes."""
    return OF_KIND[spec.kind]
