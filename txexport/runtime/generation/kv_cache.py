"""Static and dynamic key/value caches with one interface. Shape letters are those of txmodels.

A batch is padded on the right. `counts` says how many of a row's new tokens are real; the next write of a
row overwrites its padding. `media` are those of each row's prompt, which may be set before its first step.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txexport.contracts.cache_names import own_past, to_present
from txexport.contracts.names import (
    ATTENTION_MASK,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
)
from txexport.runtime import memory
from txexport.runtime.generation.cache_rows import check_room, per_token, rows_of, shares_sources
from txexport.runtime.generation.media import Media, step_inputs
from txexport.runtime.generation.states import States, filled_states, zero_states
from txexport.runtime.session import Session, Value


class StaticCache:
    """Buffers (B,K,C,H) bound as past and present at once, so that a step writes in place.

    The buffers are NumPy arrays, in which rows are moved directly.
    """

    def __init__(self, session: Session, cross: Mapping[str, Value], batch: int, capacity: int):
        self.session, self.capacity = session, capacity
        self.cross, self.copies = dict(cross), 1  # adjacent rows that share a row of `cross`
        self.lengths = np.zeros(batch, np.int64)
        self.media: list[Media] = [()] * batch
        self.arrays, self.buffers = self._zeros(batch, capacity), dict[str, Value]()
        self.states = States(session, zero_states(session, batch))
        self._bind()

    def _zeros(self, batch: int, capacity: int) -> dict[str, np.ndarray]:
        """Empty buffers, in one block of memory."""
        layouts, end = {}, 0
        for name in own_past(self.session.inputs):
            heads, size = per_token(self.session, name)
            shape, dtype = (batch, heads, capacity, size), np.dtype(self.session.dtype(name))
            count = math.prod(shape) * dtype.itemsize
            layouts[name] = (end, end + count, shape, dtype)
            end += -(-count // memory.ALIGNMENT) * memory.ALIGNMENT
        block = self.session.buffers.zeros(end)
        return {
            name: block[start:stop].view(dtype).reshape(shape)
            for name, (start, stop, shape, dtype) in layouts.items()
        }

    def _bind(self) -> None:
        """Bind the buffers and the cross-attention inputs, which stay the same from step to step."""
        self.buffers = self._values()
        inputs = {**self.cross, **self.buffers}
        presents = {to_present(name): buffer for name, buffer in self.buffers.items()}
        self.bound = [
            self.session.bind({**inputs, **before}, {**presents, **after}, [LOGITS], "cpu", self._runs())
            for before, after in self.states.bindings
        ]

    def _runs(self) -> dict[Any, Any] | None:
        """See Session.bind: None where other values than the buffers are bound."""
        return None

    def _values(self) -> dict[str, Value]:
        """The buffers in the session's memory."""
        return {name: self.session.value(array) for name, array in self.arrays.items()}

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (B,S), counts (B) -> logits (B,V) of each row's last real token.

        The first step of a row must contain its whole prompt if the graph has prefix_lengths: models with a
        prefix mask (PaliGemma) attend in both directions within it.
        """
        return self._run(input_ids, counts, np.maximum(counts - 1, 0)[:, None], prompts=True)[:, 0]

    def read(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (B,S), counts (B) -> logits (B,S,V) of every token."""
        every = np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape)
        return self._run(input_ids, counts, every)

    def _run(
        self, input_ids: np.ndarray, counts: np.ndarray, picks: np.ndarray, prompts: bool = False
    ) -> np.ndarray:
        self._reserve(int(self.lengths.max()) + input_ids.shape[1])
        feeds = {INPUT_IDS: input_ids, LOGITS_INDICES: picks}
        tensors = {name: np.ascontiguousarray(array, np.int64) for name, array in feeds.items()}
        others = step_inputs(self.session, self.media, self.lengths, counts, input_ids.shape[1], prompts)
        logits = self.bound[self.states.turn](tensors | others)
        self.states.advance()
        self.lengths = self.lengths + counts
        return logits[LOGITS].numpy()  # (B, L, V)

    def row(self, place: int) -> dict[str, np.ndarray]:
        """Copies of a row's keys and values (K,P,H), and of its states, by name."""
        length = int(self.lengths[place])
        states = {name: array[place].copy() for name, array in self.states.held.items()}
        return {name: array[place, :, :length].copy() for name, array in self.held().items()} | states

    def fill(self, lengths: Sequence[int], rows: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Set each row to the first `lengths` (B) tokens of `rows`, as `row` returned them.

        With states, each length is that of the whole stored sequence, or 0.
        """
        self.lengths = np.array(lengths, np.int64)
        self._reserve(max(lengths))
        write_rows(self.arrays, lengths, rows)
        if self.states.values[0]:  # keys and values are in the buffers already
            self.states.hold(filled_states(self.session, lengths, rows))
            self._bind()

    @property
    def ragged(self) -> bool:
        """Return whether rows may differ in length."""
        return True

    def rewind(self, lengths: np.ndarray) -> None:
        """Shorten the rows' caches to `lengths` (B); the next steps overwrite the rest."""
        self.lengths = np.minimum(self.lengths, lengths)

    def reorder(self, rows: np.ndarray) -> None:
        """Reorder the beams of each source: row i becomes the former row rows[i]."""
        moved, filled = np.flatnonzero(rows != np.arange(len(rows))), int(self.lengths.max())
        if not len(moved):
            return
        for array in self.arrays.values():
            array[moved, :, :filled] = array[rows[moved], :, :filled]
        for array in self.states.held.values():
            array[moved] = array[rows[moved]]
        self.lengths, self.media = self.lengths[rows], taken(self.media, rows)

    def select(self, rows: np.ndarray, copies: int = 1) -> None:
        """Keep only `rows` of the cache, in that order; a row may be repeated.

        Each `copies` adjacent rows have one source, whose keys and values they share if the graph allows it.
        """
        filled = int(self.lengths.max())
        check_room(self.session, len(rows), self.capacity)
        held, self.arrays = self.arrays, self._zeros(len(rows), self.capacity)
        for name, array in held.items():
            self.arrays[name][:, :, :filled] = array[rows, :, :filled]
        self._select_sources(rows, copies if shares_sources(self.session) else 1)
        self.states.hold({name: array[rows] for name, array in self.states.held.items()})
        self.lengths, self.media = self.lengths[rows], taken(self.media, rows)
        self._bind()

    def _select_sources(self, rows: np.ndarray, copies: int) -> None:
        """Keep the inputs of cross-attention of `rows`, once for each `copies` of them."""
        before = np.arange(len(self.lengths) // self.copies)
        sources, self.copies = rows[::copies] // self.copies, copies
        if not np.array_equal(sources, before):
            self.cross = rows_of(self.session, self.cross, sources)

    def _reserve(self, needed: int) -> None:
        """Grow the buffers to at least `needed` slots, at least doubling them to amortise the cost."""
        if needed > self.capacity:
            self.reserve(max(needed, 2 * self.capacity))

    def reserve(self, capacity: int) -> None:
        """Grow the buffers to `capacity` slots where they have fewer."""
        if capacity <= self.capacity:
            return
        check_room(self.session, len(self.lengths), capacity)
        held, self.arrays = self.arrays, self._zeros(len(self.lengths), capacity)
        for name, array in held.items():
            self.arrays[name][:, :, : self.capacity] = array
        self.capacity = capacity
        self._bind()

    def held(self) -> dict[str, np.ndarray]:
        """The buffers as arrays."""
        return dict(self.arrays)


def write_rows(
    arrays: Mapping[str, np.ndarray], lengths: Sequence[int], rows: Sequence[Mapping[str, np.ndarray]]
) -> None:
    """Write the first tokens of stored rows, `lengths` (B) of them, into buffers (B,K,C,H)."""
    for name, array in arrays.items():
        for place, (length, values) in enumerate(zip(lengths, rows, strict=True)):
            if length:
                array[place, :, :length] = values[name][:, :length]


def taken(media: Sequence[Media], rows: np.ndarray) -> list[Media]:
    """The media of rows, in that order."""
    return [media[row] for row in rows.tolist()]


class DynamicCache:
    """Keys and values (B,K,P,H) that each step returns longer; padding is included and masked."""

    def __init__(self, session: Session, cross: Mapping[str, Value], batch: int):
        self.session, self.cross = session, dict(cross)
        self.lengths = np.zeros(batch, np.int64)
        self.media: list[Media] = [()] * batch
        self.mask = np.zeros((batch, 0), np.int64)
        self.past = {}
        for name in own_past(session.inputs):
            heads, size = per_token(session, name)
            self.past[name] = session.value(np.zeros((batch, heads, 0, size), session.dtype(name)))
        self.hold_states(zero_states(session, batch))

    def hold_states(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replace the states (B,...) of all rows."""
        self.states = {name: self.session.value(array) for name, array in arrays.items()}

    def reserve(self, capacity: int) -> None:
        """Do nothing: each step returns a longer cache."""

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """See StaticCache."""
        picks = np.maximum(counts - 1, 0)[:, None]
        logits = self._run(input_ids, counts, picks, prompts=True)
        if LOGITS_INDICES not in self.session.inputs:
            logits = np.take_along_axis(logits, picks[:, :, None], axis=1)
        return logits[:, 0]

    def read(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (B,S), counts (B) -> logits (B,S,V) of every token."""
        return self._run(input_ids, counts, np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape))

    def _run(
        self, input_ids: np.ndarray, counts: np.ndarray, picks: np.ndarray, prompts: bool = False
    ) -> np.ndarray:
        """Logits (B,S,V) of every token, or (B,L,V) of `picks` (B,L) where the graph takes them."""
        steps = np.arange(input_ids.shape[1])
        real = (steps < counts[:, None]).astype(np.int64)  # (B, S)
        self.mask = np.concatenate([self.mask, real], axis=1)  # (B, P+S)
        feeds = {INPUT_IDS: input_ids}
        feeds |= step_inputs(self.session, self.media, self.lengths, counts, len(steps), prompts)
        if ATTENTION_MASK in self.session.inputs:
            feeds[ATTENTION_MASK] = self.mask
        if LOGITS_INDICES in self.session.inputs:
            feeds[LOGITS_INDICES] = picks
        values = {name: self.session.value(np.ascontiguousarray(array)) for name, array in feeds.items()}
        before = self.past | self.states
        wanted = [LOGITS, *map(to_present, before)]
        outputs = self.session.run_values({**values, **self.cross, **before}, wanted)
        self.past = {name: outputs[to_present(name)] for name in self.past}
        self.states = {name: outputs[to_present(name)] for name in self.states}
        self.lengths = self.lengths + counts
        return outputs[LOGITS].numpy()

    def row(self, place: int) -> dict[str, np.ndarray]:
        """See StaticCache."""
        real = self.mask[place].astype(bool)
        states = {name: value.numpy()[place].copy() for name, value in self.states.items()}
        return {name: value.numpy()[place][:, real] for name, value in self.past.items()} | states

    def fill(self, lengths: Sequence[int], rows: Sequence[Mapping[str, np.ndarray]]) -> None:
        """See StaticCache."""
        width = max(lengths)
        self.lengths = np.array(lengths, np.int64)
        self.mask = (np.arange(width) < self.lengths[:, None]).astype(np.int64)
        for name in self.past:
            heads, size = per_token(self.session, name)
            array = np.zeros((len(lengths), heads, width, size), self.session.dtype(name))
            for place, (length, values) in enumerate(zip(lengths, rows, strict=True)):
                if length:
                    array[place, :, :length] = values[name][:, :length]
            self.past[name] = self.session.value(array)
        self.hold_states(filled_states(self.session, lengths, rows))

    @property
    def ragged(self) -> bool:
        """See StaticCache; false without an attention mask, as in the decoder of an encoder-decoder."""
        return ATTENTION_MASK in self.session.inputs

    def rewind(self, lengths: np.ndarray) -> None:
        """See StaticCache; the remaining tokens are compacted, or padding would grow with every step."""
        self.lengths = np.minimum(self.lengths, lengths)
        self.mask *= self.mask.cumsum(axis=1) <= self.lengths[:, None]
        width = int(self.lengths.max())
        if width == self.mask.shape[1]:
            return
        order = np.argsort(-self.mask, axis=1, kind="stable")[:, :width]
        self.mask = np.take_along_axis(self.mask, order, axis=1)
        self.past = {
            name: self.session.value(np.take_along_axis(value.numpy(), order[:, None, :, None], axis=2))
            for name, value in self.past.items()
        }

    def reorder(self, rows: np.ndarray) -> None:
        """See StaticCache."""
        if np.array_equal(rows, np.arange(len(rows))):
            return
        self.past, self.states = (rows_of(self.session, part, rows) for part in (self.past, self.states))
        self.mask, self.lengths, self.media = self.mask[rows], self.lengths[rows], taken(self.media, rows)

    def select(self, rows: np.ndarray, copies: int = 1) -> None:
        """See StaticCache; every row has keys and values of its own."""
        check_room(self.session, len(rows), self.mask.shape[1])
        self.past, self.cross, self.states = (
            rows_of(self.session, part, rows) for part in (self.past, self.cross, self.states)
        )
        self.mask, self.lengths, self.media = self.mask[rows], self.lengths[rows], taken(self.media, rows)
