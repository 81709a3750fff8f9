"""Counts of the prompt tokens that caches compute."""

import pytest

from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache


@pytest.fixture
def read(monkeypatch):
    """The number of prompt tokens that caches have computed, rows one after another."""
    counts = []
    for kind in (StaticCache, DynamicCache):

        def step(self, input_ids, numbers, *rest, step=kind.step):
            counts.extend(numbers.tolist())
            return step(self, input_ids, numbers, *rest)

        monkeypatch.setattr(kind, "step", step)
    return counts
