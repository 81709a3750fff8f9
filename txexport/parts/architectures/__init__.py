"""Architectures: each file of this folder defines one, its ARCHITECTURE."""

import pkgutil
from importlib import import_module

from txexport.parts.part import Architecture
from txexport.spec import ModelSpec

FILES = [one.name for one in pkgutil.iter_modules(__path__) if not one.name.startswith("_")]
EVERY: tuple[Architecture, ...] = tuple(import_module(f"{__name__}.{file}").ARCHITECTURE for file in FILES)
OF_SPEC: dict[type, Architecture] = {one.spec: one for one in EVERY}


def architecture_of(spec: ModelSpec) -> Architecture:
    """The architecture of a model."""
    return OF_SPEC[type(spec)]
