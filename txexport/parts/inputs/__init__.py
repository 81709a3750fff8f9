"""Inputs of stacks: each file of this folder defines one, its INPUT."""

import pkgutil
from importlib import import_module
from typing import TypeGuard

from txexport.parts.part import Input
from txexport.spec import StackSpec, TextStackSpec

FILES = [one.name for one in pkgutil.iter_modules(__path__) if not one.name.startswith("_")]
EVERY: tuple[Input, ...] = tuple(import_module(f"{__name__}.{file}").INPUT for file in FILES)
OF_SPEC: dict[type, Input] = {one.spec: one for one in EVERY}
FILE_OF_SPEC: dict[type, str] = {one.spec: file for one, file in zip(EVERY, FILES, strict=True)}


def input_of(stack: StackSpec) -> Input:
    """The input that a stack reads."""
    return OF_SPEC[type(stack.embedding)]


def file_of(stack: StackSpec) -> str:
    """The file name of a stack's input in this folder, in txmodels/inputs and in txgraphs/inputs."""
    return FILE_OF_SPEC[type(stack.embedding)]


def reads_tokens(stack: StackSpec) -> TypeGuard[TextStackSpec]:
    """Tell whether a stack reads token ids."""
    return input_of(stack).reads_tokens
