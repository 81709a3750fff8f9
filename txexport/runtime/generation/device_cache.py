"""Static caches whose buffers, and moves of rows, stay on a device. Shape letters are those of txmodels."""

from collections.abc import Mapping, Sequence

import numpy as np

from txexport.runtime.generation.cache_rows import check_room, rows_of, shares_sources
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache, taken, write_rows
from txexport.runtime.generation.running_cache import CAPACITY, StaticRows
from txexport.runtime.generation.states import filled_states
from txexport.runtime.session import Moves, Session, Value

EIGHT = 8  # the multiple of slots for which CUDA has fast kernels of attention


def multiple(capacity: int) -> int:
    """A number of slots, rounded up."""
    return -(-capacity // EIGHT) * EIGHT


def moves_of(session: Session) -> Moves:
    """The copies within the memory of the session's device."""
    assert session.moves is not None
    return session.moves


class DeviceCache(StaticCache):
    """A StaticCache whose buffers are in a device's memory; see `multiple` for capacities."""

    def __init__(self, session: Session, cross: Mapping[str, Value], batch: int, capacity: int):
        super().__init__(session, cross, batch, multiple(capacity))
        self.arrays = {}

    def _values(self) -> dict[str, Value]:
        return super()._values() if self.arrays else self.buffers

    def fill(self, lengths: Sequence[int], rows: Sequence[Mapping[str, np.ndarray]]) -> None:
        """See StaticCache."""
        self.lengths = np.array(lengths, np.int64)
        self._reserve(max(lengths))
        arrays = self.held()
        write_rows(arrays, lengths, rows)
        self.buffers = {name: self.session.value(array) for name, array in arrays.items()}
        self.states.hold(filled_states(self.session, lengths, rows))
        self._bind()

    def reorder(self, rows: np.ndarray) -> None:
        """See StaticCache."""
        if np.array_equal(rows, np.arange(len(rows))):
            return
        self.buffers = rows_of(self.session, self.buffers, rows)
        self.states.hold({name: array[rows] for name, array in self.states.held.items()})
        self.lengths, self.media = self.lengths[rows], taken(self.media, rows)
        self._bind()

    def select(self, rows: np.ndarray, copies: int = 1) -> None:
        """See StaticCache."""
        check_room(self.session, len(rows), self.capacity)
        self._select_sources(rows, copies if shares_sources(self.session) else 1)
        self.buffers = rows_of(self.session, self.buffers, rows)
        self.states.hold({name: array[rows] for name, array in self.states.held.items()})
        self.lengths, self.media = self.lengths[rows], taken(self.media, rows)
        self._bind()

    def reserve(self, capacity: int) -> None:
        """See StaticCache."""
        if capacity <= self.capacity:
            return
        check_room(self.session, len(self.lengths), capacity)
        self.capacity, moves = multiple(capacity), moves_of(self.session)
        self.buffers = {name: moves.longer(value, self.capacity) for name, value in self.buffers.items()}
        self._bind()

    def held(self) -> dict[str, np.ndarray]:
        """The buffers as arrays, which are copies."""
        return {name: buffer.numpy() for name, buffer in self.buffers.items()}


class DeviceRows(StaticRows):
    """StaticRows whose buffers (B,K,C,H) are in a device's memory, of the size of their rows."""

    def join(self, cache: StaticCache | DynamicCache) -> None:
        """See StaticRows."""
        assert isinstance(cache, DeviceCache)
        needed = int(cache.lengths.max()) + 1
        capacity = multiple(max(needed, cache.capacity, self.capacity, CAPACITY))
        check_room(self.session, len(self.lengths) + len(cache.lengths), capacity)
        new = self._longer(cache.buffers, cache.capacity, capacity)
        before, moves = self._longer(self.values, self.capacity, capacity), moves_of(self.session)
        self.values = {
            name: moves.joined(before[name], value) if before else value for name, value in new.items()
        }
        self.capacity = capacity
        self._add(cache)
        self._bind()

    def keep(self, on: np.ndarray) -> np.ndarray:
        """See StaticRows."""
        order = self._order(on)
        self._remove(order)
        if len(order):
            self.values = rows_of(self.session, self.values, order)
            self._bind()
        else:
            self.values, self.capacity = {}, 0
        return order

    def _grow(self, tokens: int) -> None:
        capacity = multiple(max(tokens, 2 * self.capacity))
        check_room(self.session, len(self.lengths), capacity)
        self.values = self._longer(self.values, self.capacity, capacity)
        self.capacity = capacity

    def _values(self) -> dict[str, Value]:
        return self.values

    def _longer(self, values: Mapping[str, Value], now: int, capacity: int) -> dict[str, Value]:
        """Values with `capacity` slots in place of `now`."""
        if now == capacity:
            return dict(values)
        return {name: moves_of(self.session).longer(value, capacity) for name, value in values.items()}
