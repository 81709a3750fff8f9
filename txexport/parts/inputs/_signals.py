"""Seeded images and sounds: random numbers."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.parts.part import SignalCase
from txexport.spec import MediaStackSpec

LARGEST = 9  # the largest batch


def noise(stack: MediaStackSpec, random: np.random.Generator, count: int) -> list[np.ndarray]:
    """`count` signals of the size in the spec."""
    return [random.standard_normal(stack.embedding.shape, np.float32) for _ in range(count)]


def signal_cases(
    stack: MediaStackSpec,
    sizes: Sequence[tuple[str, tuple[int, ...]]] = (),
    seed: int = 0,
) -> Iterator[SignalCase]:
    """Batches of 1, 3 and 9 signals, one signal of zeros, and batches of the named `sizes`."""
    random, shape = np.random.default_rng(seed), stack.embedding.shape
    signals = random.standard_normal((3, *shape), np.float32)
    yield SignalCase("one", signals[:1])
    yield SignalCase("three", signals)
    yield SignalCase("one of zeros", np.zeros((1, *shape), np.float32))
    for name, size in sizes:
        yield SignalCase(name, random.standard_normal(size, np.float32))
    yield SignalCase("nine", random.standard_normal((LARGEST, *shape), np.float32))
