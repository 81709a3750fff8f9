"""Heads of stacks, one file each."""

from importlib import import_module
from typing import Any

from txexport.parts import head_of
from txexport.spec import HeadSpec


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> Any:
    """The module of a head over an encoder's hidden states (B,S,hidden_size)."""
    return import_module(f"{__name__}.{head_of(spec).component}").head(spec, hidden_size, vocab_size)
