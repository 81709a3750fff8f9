"""A decoder graph run step by step over each kind of cache."""

from collections.abc import Sequence

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
    NEW_LENGTHS,
    POSITION_IDS,
    PREFIX_LENGTHS,
    USE_CACHE_BRANCH,
    media_features,
)
from txexport.parts.cases import DecoderCase
from txexport.runtime.generation.media import Media, features_between, positions_of, token_indices
from txexport.runtime.preprocessing.text import pad
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.sources import prompt_of
from txexport.verification.references.reference import Arrays

FIRST = (1, 0, 1)  # heads, length and size of an empty past that no graph reads; clients invent it
SPARE = 3  # slots of a static cache beyond those of a case


class Steps:
    """A decoder graph run step by step; `present` are its caches, `ran` is the role of the last graph.

    `media` are the images in each row, none by default. `new` are the positions of each row's new
    tokens in the last step, `result` are the graph's outputs.
    """

    embeds_by = ""
    new: list[np.ndarray]
    result: dict[str, np.ndarray]

    def __init__(
        self,
        runner: GraphRunner,
        case: DecoderCase,
        cross: dict[str, np.ndarray],
        media: Sequence[Media] | None = None,
    ):
        self.runner, self.case, self.cross = runner, case, cross
        self.media = [()] * len(case.rows) if media is None else [*media]
        self.role = self.ran = self.stepping(case)
        self.ports = {port.name: port for port in runner.manifest.graphs[self.role].inputs}
        self.lengths = np.zeros(len(case.rows), np.int64)
        self.mask = np.zeros((len(case.rows), 0), np.int64)
        self.past = {
            name: self.first_past(len(case.rows), self.ports[name].shape[1], self.ports[name].shape[3])
            for name in cache_names.own_past(self.ports)
        }
        for name in cache_names.past_states(self.ports):
            self.past[name] = np.zeros([len(case.rows), *map(int, self.ports[name].shape[1:])], np.float32)

    def stepping(self, case: DecoderCase) -> str:
        """The role of the graph that takes a past."""
        return roles.DECODER if case.sources else roles.MODEL

    def first_past(self, batch: int, heads: int | str, size: int | str) -> np.ndarray:
        """An empty cache."""
        raise NotImplementedError

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens of each row -> their logits."""
        raise NotImplementedError

    def features(self, new: list[list[int]]) -> dict[str, np.ndarray]:
        """The vectors (n,W) of images among the new tokens, and the lengths of prompts.

        Nothing for a graph without these inputs.
        """
        name = media_features(self.ports)
        inputs = {name: self.vectors(new)} if name in self.ports else {}
        if PREFIX_LENGTHS in self.ports:
            inputs[PREFIX_LENGTHS] = np.array([prompt_of(self.case, row) for row in range(len(new))])
        return inputs

    def vectors(self, new: list[list[int]]) -> np.ndarray:
        """The vectors (n,W) of images among the new tokens of each row, in their order."""
        encoder, counts = (
            self.runner.manifest.graphs[self.runner.bundle.media_role],
            np.array([*map(len, new)]),
        )
        none = np.zeros((0, int(encoder.outputs[0].shape[-1])), np.float32)
        return np.concatenate([none, *features_between(self.media, self.lengths, counts)])

    def positions(self, length: int) -> np.ndarray:
        """Positions (B,S) or (3,B,S), as the graph has them, of `length` tokens after those of each row."""
        if POSITION_IDS in self.ports and len(self.ports[POSITION_IDS].shape) == 3:
            return positions_of(self.media, self.lengths, length)
        return token_indices(self.lengths, length)

    def filled(self, row: int) -> np.ndarray:
        """The filled slots of a row."""
        raise NotImplementedError

    def layers(self, row: int) -> dict[str, np.ndarray]:
        """Outputs of layers for a row's new tokens: vectors (n,W), and weights (N,n,T) over all slots."""
        return {
            name: array[row][self.new[row]] if kind == HIDDEN_STATES else array[row][:, self.new[row]]
            for name, array in self.result.items()
            if (kind := kind_of(name)) is not None
        }

    def embeds(self, row: int, truth: Arrays) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The vectors (n,W) of a row's new tokens by the graph `embeds_by`, and the reference's.

        Nothing without such a graph.
        """
        return {}

    @property
    def present(self) -> dict[str, np.ndarray]:
        """The caches by output name."""
        return {cache_names.to_present(name): array for name, array in self.past.items()}

    def advance(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """Run once, keep the caches, return the logits."""
        self.result = self.runner.run(self.role, **feeds, **self.cross, **self.past)
        self.past = {name: self.result[cache_names.to_present(name)] for name in self.past}
        return self.result[LOGITS]


class StaticSteps(Steps):
    """Steps over buffers with spare slots, full of noise that would show if a graph read it."""

    def first_past(self, batch, heads, size):
        """A buffer of noise with no slot filled."""
        widest = max(int(step.max()) for step in self.case.steps)
        capacity = int(self.case.steps.sum(axis=0).max()) + widest + SPARE
        return np.random.default_rng(1).normal(5, 5, (batch, heads, capacity, size)).astype(np.float32)

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens of each row -> their logits, requested in reverse: the graph must use the indices."""
        counts = np.array([len(row) for row in new])
        self.new = [np.arange(count) for count in counts]
        ids, _ = pad([row or [0] for row in new], 0)
        backwards = np.broadcast_to(np.arange(ids.shape[1])[::-1], ids.shape).copy()
        feeds = {INPUT_IDS: ids, LOGITS_INDICES: backwards}
        if CACHE_LENGTHS in self.ports:
            feeds[CACHE_LENGTHS] = self.lengths
        if POSITION_IDS in self.ports:
            feeds[POSITION_IDS] = self.positions(ids.shape[1])
        if NEW_LENGTHS in self.ports:
            feeds[NEW_LENGTHS] = counts
        logits = self.advance(feeds | self.features(new))[:, ::-1]
        self.lengths = self.lengths + counts
        return [logits[row, :n] for row, n in enumerate(counts)]

    def filled(self, row: int) -> np.ndarray:
        """The filled slots of a row."""
        return np.arange(self.lengths[row])


class SharedSteps(StaticSteps):
    """Steps over the same buffers with a mask that grows, padding included."""

    def stepping(self, case: DecoderCase) -> str:
        """See Steps."""
        return roles.SHARED

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens of each row -> their logits."""
        counts = np.array([len(row) for row in new])
        self.new = [np.arange(count) for count in counts]
        ids, _ = pad([row or [0] for row in new], 0)
        real = np.arange(ids.shape[1]) < counts[:, None]
        self.mask = np.concatenate([self.mask, real.astype(np.int64)], axis=1)
        logits = self.advance({INPUT_IDS: ids, ATTENTION_MASK: self.mask})
        self.lengths = self.lengths + counts
        return [logits[row, :n] for row, n in enumerate(counts)]


class DynamicSteps(Steps):
    """Steps over a cache that grows, padding included."""

    def first_past(self, batch, heads, size):
        """A cache of length 0."""
        return np.zeros((batch, heads, 0, size), np.float32)

    def run(self, new: list[list[int]]) -> list[np.ndarray]:
        """New tokens of each row -> their logits."""
        ids, real = pad([row or [0] for row in new], 0)
        real[[not row for row in new]] = 0
        if self.case.left:
            ids, real = _to_left(ids, real)
        return self.read(ids, real, new)

    def read(self, ids: np.ndarray, real: np.ndarray, new: list[list[int]]) -> list[np.ndarray]:
        """Ids (B,S) and a mask (B,S) of the new tokens among them -> the logits of these."""
        self.new = [np.flatnonzero(row) for row in real]
        self.mask = np.concatenate([self.mask, real], axis=1)
        feeds = {INPUT_IDS: ids, **self.features(new)}
        if ATTENTION_MASK in self.ports:
            feeds[ATTENTION_MASK] = self.mask
        if POSITION_IDS in self.ports:
            order = np.maximum(real.cumsum(axis=1) - 1, 0)  # (B, S): the number of each token in its row
            position_ids = self.positions(ids.shape[1])
            order = np.broadcast_to(order, position_ids.shape)
            feeds[POSITION_IDS] = np.take_along_axis(position_ids, order, axis=-1) * real
        logits = self.advance(feeds)
        self.lengths = self.lengths + real.sum(axis=1)
        return [logits[row, keep] for row, keep in enumerate(real.astype(bool))]

    def filled(self, row: int) -> np.ndarray:
        """The filled slots of a row."""
        return np.flatnonzero(self.mask[row])


class HubSteps(DynamicSteps):
    """Steps by the ecosystem's contract: the first step has no past, and creates the cross-attention caches.

    There are two graphs, or a `merged` one. `given` are the outputs of the encoder, hidden states included.
    """

    def __init__(self, runner: GraphRunner, case: DecoderCase, given: dict[str, np.ndarray], merged: bool):
        self.given, self.merged = given, merged
        super().__init__(runner, case, {})

    def stepping(self, case: DecoderCase) -> str:
        """See Steps."""
        return roles.DECODER_MERGED if self.merged else roles.DECODER_WITH_PAST

    def first_past(self, batch: int, heads: int | str, size: int | str) -> np.ndarray:
        """The past that clients invent for the first step: heads of any number, and no tokens."""
        return np.zeros((batch, *FIRST), np.float32)

    @property
    def present(self) -> dict[str, np.ndarray]:
        """See Steps; with the cross-attention caches."""
        return {**super().present, **{cache_names.to_present(name): a for name, a in self.cross.items()}}

    def advance(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """See Steps. Raises AssertionError if a later step changes the cross-attention caches."""
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
            present = result.get(cache_names.to_present(name), array)
            if not np.array_equal(present, array):
                raise AssertionError(f"{name} changed in a later step")
        self.past = {name: result[cache_names.to_present(name)] for name in self.past}
        self.result = result
        return result[LOGITS]


def _to_left(ids: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids and mask with right padding moved to the left."""
    shifts = real.shape[1] - real.sum(axis=1)
    rolled = [np.roll(np.stack([i, r]), shift, axis=1) for i, r, shift in zip(ids, real, shifts, strict=True)]
    both = np.stack(rolled)
    return both[:, 0], both[:, 1]
