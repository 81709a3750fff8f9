"""Parameters of tests of which a run of every test has some: the others are marked slow."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest


def often(parameters: Mapping[str, Any] | Iterable[str], *, slower: Collection[str]) -> list:
    """Parameters by name, or names alone; the `slower` repeat or combine what the others have."""
    options = parameters if isinstance(parameters, Mapping) else {name: name for name in parameters}
    assert {*slower} < options.keys()
    return [
        pytest.param(value, id=name, marks=[pytest.mark.slow] if name in slower else [])
        for name, value in options.items()
    ]
