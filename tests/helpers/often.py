"""Parameters of tests of which a run of every test has some: the others are marked slow."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest


def often(options: Mapping[str, Any], *, slower: Collection[str] = ()) -> list:
    """Parameters by name; the `slower` repeat or combine what the others have."""
    assert {*slower} < options.keys()
    return [
        pytest.param(value, id=name, marks=[pytest.mark.slow] if name in slower else [])
        for name, value in options.items()
    ]
