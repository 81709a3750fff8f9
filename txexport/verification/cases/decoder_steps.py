"""A decoder graph run step by step over either cache, as a case says."""

import numpy as np

from txexport.contracts import cache_names, roles
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import (
    ATTENTION_MASK,
    CACHE_LENGTHS,
    HIDDEN_STATES,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    POSITION_IDS,
    USE_CACHE_BRANCH,
)
from txexport.parts.cases import DecoderCase
from txexport.runtime.preprocessing.text import pad
from txexport.verification.cases.graph_runner import GraphRunner

FIRST = (1, 0, 1)  # heads, length and size of an empty past that nothing reads: clients guess
SPARE = 3  # slots of a static cache beyond those that a case fills


class Steps:
    """A decoder graph run step by step; `present` are its caches after the last one, which `ran` gave.

    `new` is where in that step the new tokens of each row stand, `result` all that the graph gave.
    """

    new: list[np.ndarray]
    result: dict[str, np.ndarray]

    def __init__(self, runner: GraphRunner, case: DecoderCase, cross: dict[str, np.ndarray]):
        self.runner, self.case, self.cross = runner, case, cross
        self.role = self.ran = self.stepping(case)
        self.ports = {port.name: port for port in runner.manifest.graphs[self.role].inputs}
        self.lengths = np.zeros(len(case.rows), np.int64)
        self.past = {
            name: self.first_past(len(case.rows), self.ports[name].shape[1], self.ports[name].shape[3])
            for name in cache_names.own_past(self.ports)
        }

    def stepping(self, case: DecoderCase) -> str:
        """The graph that takes a past."""
        return roles.DECODER if case.sources else roles.MODEL

    def first_past(self, batch: int, heads: int | str, size: int | str) -> np.ndarray:
        """A cache of nothing."""
        raise NotImplementedError

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens a row -> their logits a row."""
        raise NotImplementedError

    def filled(self, row: int) -> np.ndarray:
        """The slots that a row has filled."""
        raise NotImplementedError

    def layers(self, row: int) -> dict[str, np.ndarray]:
        """What layers gave of a row's new tokens: vectors (n,W), and weights (N,n,T) of all slots."""
        return {
            name: array[row][self.new[row]] if kind == HIDDEN_STATES else array[row][:, self.new[row]]
            for name, array in self.result.items()
            if (kind := kind_of(name)) is not None
        }

    @property
    def present(self) -> dict[str, np.ndarray]:
        """The caches by output name."""
        return {cache_names.to_present(name): array for name, array in self.past.items()}

    def advance(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """One run; keeps the caches, returns the logits."""
        self.result = self.runner.run(self.role, **feeds, **self.cross, **self.past)
        self.past = {name: self.result[cache_names.to_present(name)] for name in self.past}
        return self.result[LOGITS]


class StaticSteps(Steps):
    """Over buffers with spare slots, whose unfilled part holds numbers that would show if they were read."""

    def first_past(self, batch, heads, size):
        """A cache of nothing, full of noise."""
        widest = max(int(step.max()) for step in self.case.steps)
        capacity = int(self.case.steps.sum(axis=0).max()) + widest + SPARE
        return np.random.default_rng(1).normal(5, 5, (batch, heads, capacity, size)).astype(np.float32)

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens a row -> their logits a row; asked for in reverse, so that the indices must be used."""
        counts = np.array([len(row) for row in new])
        self.new = [np.arange(count) for count in counts]
        ids, _ = pad([row or [0] for row in new], 0)
        backwards = np.broadcast_to(np.arange(ids.shape[1])[::-1], ids.shape).copy()
        logits = self.advance({INPUT_IDS: ids, CACHE_LENGTHS: self.lengths, LOGITS_INDICES: backwards})[
            :, ::-1
        ]
        self.lengths = self.lengths + counts
        return [logits[row, :n] for row, n in enumerate(counts)]

    def filled(self, row: int) -> np.ndarray:
        """The slots that a row has filled."""
        return np.arange(self.lengths[row])


class SharedSteps(StaticSteps):
    """The same buffers, told by a mask that grows, padding included."""

    def __init__(self, runner: GraphRunner, case: DecoderCase, cross: dict[str, np.ndarray]):
        super().__init__(runner, case, cross)
        self.mask = np.zeros((len(case.rows), 0), np.int64)

    def stepping(self, case: DecoderCase) -> str:
        """See Steps."""
        return roles.SHARED

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens a row -> their logits a row."""
        counts = np.array([len(row) for row in new])
        self.new = [np.arange(count) for count in counts]
        ids, _ = pad([row or [0] for row in new], 0)
        real = np.arange(ids.shape[1]) < counts[:, None]
        self.mask = np.concatenate([self.mask, real.astype(np.int64)], axis=1)
        logits = self.advance({INPUT_IDS: ids, ATTENTION_MASK: self.mask})
        self.lengths = self.lengths + counts
        return [logits[row, :n] for row, n in enumerate(counts)]


class DynamicSteps(Steps):
    """Over a cache that grows, padding included."""

    def __init__(self, runner: GraphRunner, case: DecoderCase, cross: dict[str, np.ndarray]):
        super().__init__(runner, case, cross)
        self.mask = np.zeros((len(case.rows), 0), np.int64)

    def first_past(self, batch, heads, size):
        """A cache of length 0."""
        return np.zeros((batch, heads, 0, size), np.float32)

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens a row -> their logits a row."""
        ids, real = pad([row or [0] for row in new], 0)
        real[[not row for row in new]] = 0
        if self.case.left:
            ids, real = _to_left(ids, real)
        self.new = [np.flatnonzero(row) for row in real]
        self.mask = np.concatenate([self.mask, real], axis=1)
        feeds = {INPUT_IDS: ids}
        if ATTENTION_MASK in self.ports:
            feeds[ATTENTION_MASK] = self.mask
            feeds[POSITION_IDS] = (self.lengths[:, None] + real.cumsum(axis=1) - 1) * real
        logits = self.advance(feeds)
        self.lengths = self.lengths + real.sum(axis=1)
        return [logits[row, keep] for row, keep in enumerate(real.astype(bool))]

    def filled(self, row: int) -> np.ndarray:
        """The slots that a row has filled."""
        return np.flatnonzero(self.mask[row])


class HubSteps(DynamicSteps):
    """By the ecosystem's contract: the first step has no past, and makes an encoder's keys and values.

    Two graphs, or a `merged` one. `given` is what the encoder left, hidden states among it.
    """

    def __init__(self, runner: GraphRunner, case: DecoderCase, given: dict[str, np.ndarray], merged: bool):
        self.given, self.merged = given, merged
        super().__init__(runner, case, {})

    def stepping(self, case: DecoderCase) -> str:
        """See Steps."""
        return roles.DECODER_MERGED if self.merged else roles.DECODER_WITH_PAST

    def first_past(self, batch: int, heads: int | str, size: int | str) -> np.ndarray:
        """What clients make up before the first step: heads of their own, and no tokens."""
        return np.zeros((batch, *FIRST), np.float32)

    @property
    def present(self) -> dict[str, np.ndarray]:
        """See Steps; of the encoder's tokens too."""
        return {**super().present, **{cache_names.to_present(name): a for name, a in self.cross.items()}}

    def advance(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """See Steps. Raises AssertionError where a later step alters the encoder's keys and values."""
        first = not self.cross
        self.ran = roles.DECODER if first and not self.merged else self.role
        if self.merged:
            past = {**self.cross, **self.past}
            if first:
                empty = next(iter(self.past.values()))
                past = {name: empty for name in self.ports if cache_names.is_past(name)}
            branch = {USE_CACHE_BRANCH: np.array([not first])}
            result = self.runner.run(self.role, **feeds, **self.given, **past, **branch)
        elif first:
            result = self.runner.run(self.ran, **feeds, **self.given)
        else:
            rest = {name: array for name, array in self.given.items() if name in self.ports}
            result = self.runner.run(self.role, **feeds, **rest, **self.cross, **self.past)
        if first:
            self.cross = {cache_names.to_past(n): a for n, a in result.items() if cache_names.is_cross(n)}
        for name, array in self.cross.items():
            kept = result.get(cache_names.to_present(name), array)
            if not np.array_equal(kept, array):
                raise AssertionError(f"{name} came back otherwise")
        self.past = {name: result[cache_names.to_present(name)] for name in self.past}
        self.result = result
        return result[LOGITS]


def _to_left(ids: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right padding moved to the left."""
    shifts = real.shape[1] - real.sum(axis=1)
    rolled = [np.roll(np.stack([i, r]), shift, axis=1) for i, r, shift in zip(ids, real, shifts, strict=True)]
    both = np.stack(rolled)
    return both[:, 0], both[:, 1]
