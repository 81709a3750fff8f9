"""Static caches whose buffers, and moves of rows, stay on a device. Shape letters are those of txmodels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txexport.contracts.cache_names import own_past
from txexport.runtime.generation.cache_rows import check_room, per_token, shares_sources
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache, taken, write_rows
from txexport.runtime.generation.running_cache import CAPACITY, StaticRows
from txexport.runtime.generation.states import filled_states
from txexport.runtime.session import Loan, Moves, Session, Value

LEAST = 64  # slots; CUDA's kernels of attention are fastest for multiples of 8
PARTS = 8  # sizes between a power of two and the next


def rounded(capacity: int) -> int:
    """A number of slots, rounded up to one of few, so that later caches find buffers of their size."""
    step = max(LEAST, 2 ** (capacity - 1).bit_length() // (2 * PARTS))
    return -(-capacity // step) * step


def moves_of(session: Session) -> Moves:
    """The copies within the memory of the session's device."""
    assert session.moves is not None
    return session.moves


def borrowed(session: Session, rows: int, capacity: int) -> Loan:
    """Buffers (B,K,C,H) for keys and values, with any content."""
    shapes = {}
    for name in own_past(session.inputs):
        heads, size = per_token(session, name)
        shapes[name] = (rows, heads, capacity, size), session.dtype(name)
    return moves_of(session).buffers.borrow(shapes)


class DeviceCache(StaticCache):
    """A StaticCache whose buffers are in a device's memory. Its capacity is one that `rounded` returns."""

    loan: Loan
    bound_to: Loan  # what `bound` reads and writes

    def _zeros(self, batch: int, capacity: int) -> dict[str, np.ndarray]:
        self.loan = borrowed(self.session, batch, capacity)
        moves_of(self.session).clear(self.loan.values)  # masks do not hide NaN
        return {}

    def _bind(self) -> None:
        super()._bind()
        self.bound_to = self.loan

    def _values(self) -> dict[str, Value]:
        return dict(self.loan.values)

    def _runs(self) -> dict[Any, Any] | None:
        return None if self.cross or self.states.values[0] else self.loan.runs

    def fill(self, lengths: Sequence[int], rows: Sequence[Mapping[str, np.ndarray]]) -> None:
        """See StaticCache."""
        self.lengths = np.array(lengths, np.int64)
        self._reserve(max(lengths))
        arrays = self.held()
        write_rows(arrays, lengths, rows)
        self.loan.write(arrays)
        self.states.hold(filled_states(self.session, lengths, rows))
        self._bind()

    def reorder(self, rows: np.ndarray) -> None:
        """See StaticCache."""
        if not np.array_equal(rows, np.arange(len(rows))):
            self._take(rows)

    def select(self, rows: np.ndarray, copies: int = 1) -> None:
        """See StaticCache."""
        check_room(self.session, len(rows), self.capacity)
        self._select_sources(rows, copies if shares_sources(self.session) else 1)
        self._take(rows)

    def _take(self, rows: np.ndarray) -> None:
        """Keep only `rows`, in that order."""
        loan = borrowed(self.session, len(rows), self.capacity)
        moves_of(self.session).rows(self.loan.values, rows, loan.values)
        self.loan = loan
        self.states.hold({name: array[rows] for name, array in self.states.held.items()})
        self.lengths, self.media = self.lengths[rows], taken(self.media, rows)
        self._bind()

    def reserve(self, capacity: int) -> None:
        """See StaticCache."""
        if capacity <= self.capacity:
            return
        capacity = rounded(capacity)
        check_room(self.session, len(self.lengths), capacity)
        loan = borrowed(self.session, len(self.lengths), capacity)
        moves_of(self.session).longer(self.loan.values, capacity, loan.values)
        self.loan, self.capacity = loan, capacity
        self._bind()

    def held(self) -> dict[str, np.ndarray]:
        """The buffers as arrays, which are copies."""
        return {name: value.numpy() for name, value in self.loan.values.items()}


class DeviceRows(StaticRows):
    """StaticRows whose buffers (B,K,C,H) are in a device's memory, of the size of their rows."""

    loan: Loan | None = None
    bound_to: Loan | None = None  # what `bound` reads and writes

    def join(self, cache: StaticCache | DynamicCache) -> None:
        """See StaticRows."""
        assert isinstance(cache, DeviceCache)
        needed = int(cache.lengths.max()) + 1
        rows, capacity = len(self.lengths) + len(cache.lengths), rounded(max(needed, CAPACITY))
        capacity = max(capacity, cache.capacity, self.capacity)
        check_room(self.session, rows, capacity)
        if self.loan is None and cache.capacity == capacity:
            loan = cache.loan
        else:
            loan, moves = borrowed(self.session, rows, capacity), moves_of(self.session)
            if self.loan is None:
                moves.longer(cache.loan.values, capacity, loan.values)
            else:
                before, new = self._longer(self.loan, capacity), self._longer(cache.loan, capacity)
                moves.joined(before, new, loan.values)
        self._add(cache)
        self.loan, self.capacity = loan, capacity
        self._bind()

    def keep(self, on: np.ndarray) -> np.ndarray:
        """See StaticRows."""
        order = self._order(on)
        assert self.loan is not None
        if not len(order):
            self._remove(order)
            self.loan = self.bound_to = None
            self.values, self.bound, self.capacity = {}, [], 0
            return order
        loan = borrowed(self.session, len(order), self.capacity)
        moves_of(self.session).rows(self.loan.values, order, loan.values)
        self._remove(order)
        self.loan = loan
        self._bind()
        return order

    def _grow(self, tokens: int) -> None:
        assert self.loan is not None
        capacity = rounded(max(tokens, 2 * self.capacity))
        check_room(self.session, len(self.lengths), capacity)
        loan = borrowed(self.session, len(self.lengths), capacity)
        moves_of(self.session).longer(self.loan.values, capacity, loan.values)
        self.loan, self.capacity = loan, capacity

    def _bind(self) -> None:
        super()._bind()
        self.bound_to = self.loan

    def _values(self) -> dict[str, Value]:
        assert self.loan is not None
        return dict(self.loan.values)

    def _runs(self) -> dict[Any, Any] | None:
        assert self.loan is not None
        return None if self.cross or self.states.values[0] else self.loan.runs

    def _longer(self, loan: Loan, capacity: int) -> Mapping[str, Value]:
        """The loan's values with `capacity` slots."""
        if all(value.shape()[2] == capacity for value in loan.values.values()):
            return loan.values
        return moves_of(self.session).longer(loan.values, capacity)
