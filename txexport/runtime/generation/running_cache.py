"""Caches for continuous batching. Shape letters are those of txmodels; T source tokens.

Rows are added from a cache that has read their prompts, and removed in any order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txexport.contracts.cache_names import own_past, to_present
from txexport.contracts.names import (
    ATTENTION_MASK,
    ENCODER_ATTENTION_MASK,
    IMAGE_SPANS,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
)
from txexport.runtime.generation.cache_rows import check_room, per_token
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.media import Media, step_inputs
from txexport.runtime.generation.states import States, zero_states
from txexport.runtime.session import Session

CAPACITY = 64  # tokens of the smallest buffer
Arrays = Mapping[str, np.ndarray]


class StaticRows:
    """Buffers (slots,K,C,H) whose first B slots hold the rows, bound in place as in StaticCache.

    A row that is removed is replaced by the last one.
    """

    def __init__(self, session: Session):
        self.session = session
        self.lengths = np.zeros(0, np.int64)
        self.media: list[Media] = []
        self.slots = self.capacity = 0
        self.buffers: dict[str, np.ndarray] = {}
        self.values: dict[str, Any] = {}  # the rows' slots, in the session's memory
        self.cross: dict[str, np.ndarray] = {}
        self.states = States(session, zero_states(session, 0))

    def takes(self, cache: StaticCache | DynamicCache) -> bool:
        """Return whether the rows of `cache` can run in one batch with these."""
        return _joinable(self.cross, {name: value.numpy() for name, value in cache.cross.items()})

    def join(self, cache: StaticCache | DynamicCache) -> None:
        """Append the rows of `cache`. Raises InputError where they exceed the memory."""
        assert isinstance(cache, StaticCache)
        before, filled = len(self.lengths), int(cache.lengths.max())
        lengths = np.concatenate([self.lengths, cache.lengths])
        self._fit(len(lengths), int(lengths.max()) + 1)
        for name, array in cache.held().items():
            self.buffers[name][before : len(lengths), :, :filled] = array[:, :, :filled]
        self._add(cache)
        self._bind()

    def _add(self, cache: StaticCache) -> None:
        """Append what rows have beside their keys and values."""
        self.cross = joined(self.cross, {name: value.numpy() for name, value in cache.cross.items()})
        new = cache.states.held
        self.states.hold(
            {name: np.concatenate([array, new[name]]) for name, array in self.states.held.items()}
        )
        self.lengths = np.concatenate([self.lengths, cache.lengths])
        self.media = [*self.media, *cache.media]

    def keep(self, on: np.ndarray) -> np.ndarray:
        """Remove the rows where `on` (B) is false; returns the former index of each row left."""
        order, filled = self._order(on), int(self.lengths.max())
        for to, row in enumerate(order.tolist()):
            if to != row:
                for array in self.buffers.values():
                    array[to, :, :filled] = array[row, :, :filled]
        self._remove(order)
        self._fit(len(order), int(self.lengths.max(initial=0)) + 1)
        self._bind()
        return order

    def _order(self, on: np.ndarray) -> np.ndarray:
        """The rows where `on` (B) is true; the last ones fill the gaps."""
        count = int(on.sum())
        order = np.arange(count)
        order[~on[:count]] = np.flatnonzero(on[count:]) + count
        return order

    def _remove(self, order: np.ndarray) -> None:
        """Keep only what the rows of `order` have beside their keys and values."""
        self.states.hold({name: array[order] for name, array in self.states.held.items()})
        self.lengths, self.cross = self.lengths[order], _kept(self.cross, order)
        self.media = [self.media[row] for row in order.tolist()]

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """The newest token of each row (B) -> logits (B,V)."""
        if int(self.lengths.max()) + 1 > self.capacity:
            self._grow(int(self.lengths.max()) + 1)
            self._bind()
        feeds = {
            INPUT_IDS: np.ascontiguousarray(tokens[:, None]),
            LOGITS_INDICES: np.zeros((len(tokens), 1), np.int64),
        } | step_inputs(self.session, self.media, self.lengths, np.ones_like(self.lengths), 1)
        logits = self.bound[self.states.turn](feeds)[LOGITS].numpy()  # (B, 1, V)
        self.states.advance()
        self.lengths = self.lengths + 1
        return logits[:, 0]

    def _grow(self, tokens: int) -> None:
        """Make room for `tokens` tokens a row."""
        self._fit(len(self.lengths), tokens)

    def _fit(self, rows: int, tokens: int) -> None:
        """Resize the buffers for `rows` rows of `tokens` tokens if they are too small or much too large."""
        slots, capacity = _size(self.slots, rows), max(CAPACITY, _size(self.capacity, tokens))
        if (slots, capacity) == (self.slots, self.capacity):
            return
        check_room(self.session, slots, capacity)
        held = min(rows, len(self.lengths))
        filled = int(self.lengths[:held].max(initial=0))
        for name in own_past(self.session.inputs):
            heads, size = per_token(self.session, name)
            buffer = np.zeros((slots, heads, capacity, size), self.session.dtype(name))
            if held:
                buffer[:held, :, :filled] = self.buffers[name][:held, :, :filled]
            self.buffers[name] = buffer
        self.slots, self.capacity = slots, capacity

    def _bind(self) -> None:
        """Bind the rows' slots and states, and the cross-attention inputs."""
        self.values = self._values()
        cross = {name: self.session.value(array) for name, array in self.cross.items()}
        presents = {to_present(name): value for name, value in self.values.items()}
        self.bound = [
            self.session.bind(
                {**cross, **self.values, **before}, {**presents, **after}, [LOGITS], "cpu", self._runs()
            )
            for before, after in self.states.bindings
        ]

    def _runs(self) -> dict[Any, Any] | None:
        """See Session.bind: None where other values than the buffers are bound."""
        return None

    def _values(self) -> dict[str, Any]:
        """The rows' slots, in the session's memory."""
        rows = len(self.lengths)
        return {name: self.session.value(array[:rows]) for name, array in self.buffers.items()}


class DynamicRows:
    """A DynamicCache that is repacked, each row to the left, when rows are added or removed."""

    def __init__(self, session: Session):
        self.session = session
        self.cache: DynamicCache | None = None

    def takes(self, cache: StaticCache | DynamicCache) -> bool:
        """Return whether the rows of `cache` can join: without a mask, only rows of equal length can."""
        if self.cache is None:
            return True
        held, new = (
            {name: value.numpy() for name, value in one.cross.items()} for one in (self.cache, cache)
        )
        if not _joinable(held, new):
            return False
        if ATTENTION_MASK in self.session.inputs:
            return True
        return len({*self.cache.lengths.tolist(), *cache.lengths.tolist()}) == 1

    def join(self, cache: StaticCache | DynamicCache) -> None:
        """See StaticRows."""
        assert isinstance(cache, DynamicCache)
        rows = [(one, row) for one in (self.cache, cache) if one for row in range(len(one.lengths))]
        cross: dict[str, np.ndarray] = {}
        for one in (self.cache, cache):
            if one:
                cross = joined(cross, {name: value.numpy() for name, value in one.cross.items()})
        self._pack(rows, cross)

    def keep(self, on: np.ndarray) -> np.ndarray:
        """See StaticRows."""
        assert self.cache is not None
        order = np.flatnonzero(on)
        if not len(order):
            self.cache = None
            return order
        cross = {name: value.numpy() for name, value in self.cache.cross.items()}
        self._pack([(self.cache, row) for row in order.tolist()], _kept(cross, order))
        return order

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """See StaticRows."""
        assert self.cache is not None
        return self.cache.step(tokens[:, None], np.ones(len(tokens), np.int64))

    def _pack(self, rows: Sequence[tuple[DynamicCache, int]], cross: Arrays) -> None:
        """Hold the given rows of caches, padded to the longest of them."""
        lengths = np.array([cache.lengths[row] for cache, row in rows])
        longest = int(lengths.max())
        check_room(self.session, len(rows), longest)
        values = {name: self.session.value(array) for name, array in cross.items()}
        packed = DynamicCache(self.session, values, len(rows))
        packed.lengths, packed.media = lengths, [cache.media[row] for cache, row in rows]
        packed.mask = (np.arange(longest) < lengths[:, None]).astype(np.int64)
        held = {id(cache): {name: value.numpy() for name, value in cache.past.items()} for cache, _ in rows}
        for name in packed.past:
            heads, size = per_token(self.session, name)
            array = np.zeros((len(rows), heads, longest, size), self.session.dtype(name))
            for place, (cache, row) in enumerate(rows):
                array[place, :, : lengths[place]] = held[id(cache)][name][row][:, cache.mask[row] > 0]
            packed.past[name] = self.session.value(array)
        packed.hold_states(
            {
                name: np.stack([cache.states[name].numpy()[row] for cache, row in rows])
                for name in packed.states
            }
        )
        self.cache = packed


def _size(now: int, needed: int) -> int:
    """A new size: at least doubled where `now` is too small, reduced where it is over four times `needed`."""
    if needed > now:
        return max(needed, 2 * now)
    return now if now <= 4 * needed else 2 * needed


def _joinable(first: Arrays, second: Arrays) -> bool:
    """Return whether cross-attention inputs can be one batch: of several lengths if masked."""
    if not first or ENCODER_ATTENTION_MASK in first or IMAGE_SPANS in first:
        return True
    return all(first[name].shape[2] == array.shape[2] for name, array in second.items())


def joined(first: Arrays, second: Arrays) -> dict[str, np.ndarray]:
    """Concatenate the cross-attention inputs (B,T) or (B,I,3), and (B,K,T,H), of two groups.

    A mask or spans hide padding.
    """
    if not first:  # copied: a NumPy view does not keep a value's memory alive
        return {name: array.copy() for name, array in second.items()}
    result = {}
    for name in second:
        axis = second[name].ndim // 2  # T's
        longest = max(first[name].shape[axis], second[name].shape[axis])
        result[name] = np.concatenate([_padded(one[name], axis, longest) for one in (first, second)])
    return result


def _padded(array: np.ndarray, axis: int, length: int) -> np.ndarray:
    widths = [(0, length - array.shape[axis] if at == axis else 0) for at in range(array.ndim)]
    return np.pad(array, widths) if any(more for _, more in widths) else array


def _kept(cross: Arrays, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Cross-attention inputs of some rows, cut to the longest of their sources, or to the most images."""
    selected = {name: array[rows] for name, array in cross.items()}
    if IMAGE_SPANS in selected and len(rows):
        spans = selected.pop(IMAGE_SPANS)
        now, most = spans.shape[1], int((spans[:, :, 2] > 0).sum(axis=1).max())  # images come first
        cut = {
            name: array[:, :, : max(1, most) * (array.shape[2] // max(1, now))]
            for name, array in selected.items()
        }
        selected = {name: np.ascontiguousarray(array) for name, array in cut.items()}
        return {IMAGE_SPANS: np.ascontiguousarray(spans[:, :most]), **selected}
    if ENCODER_ATTENTION_MASK in selected and len(rows):
        longest = int(selected[ENCODER_ATTENTION_MASK].sum(axis=1).max())
        for name, array in selected.items():
            selected[name] = np.ascontiguousarray(
                array[(slice(None),) * (array.ndim // 2) + (slice(longest),)]
            )
    return selected
