"""Keys and values of token sequences that were read before, so that what begins alike is not read again.

Shape letters are those of txmodels: K key heads, P tokens, H the size of a head.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from txexport.errors import InputError, shown
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.support.arguments import is_whole

TOKENS = 65_536  # of a store, where nobody says

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Entry:
    """A sequence (P) that a bundle has read, and its keys and values (K,P,H) by name; nobody changes them."""

    bundle: LoadedBundle
    tokens: np.ndarray
    arrays: Arrays

    @property
    def nbytes(self) -> int:
        """The memory of the keys and values."""
        return sum(array.nbytes for array in self.arrays.values())

    def shared(self, bundle: LoadedBundle, tokens: np.ndarray) -> int:
        """With how many tokens of the sequence `tokens` begin; 0 for those of another bundle."""
        if self.bundle is not bundle:
            return 0
        size = min(len(self.tokens), len(tokens))
        differ = np.flatnonzero(self.tokens[:size] != tokens[:size])
        return int(differ[0]) if len(differ) else size


class PrefixStore:
    """What models have read, for one session or for all requests of a server; threads may share it.

    It holds at most `max_tokens` tokens and, where that is given, `max_bytes` of keys and values: what was
    not used for longest leaves. It keeps nothing that a longer sequence begins with. Raises InputError for
    budgets that cannot be.
    """

    def __init__(self, max_tokens: int = TOKENS, max_bytes: int | None = None):
        for name, value in (("max_tokens", max_tokens), ("max_bytes", max_bytes)):
            if not is_whole(value, 1) and not (name == "max_bytes" and value is None):
                raise InputError(f"{name} is {shown(value)}, expected a whole number of at least 1")
        self.max_tokens, self.max_bytes = max_tokens, max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()  # the last used comes last
        self._next = 0

    def __len__(self) -> int:
        """How many tokens it holds."""
        with self._lock:
            return sum(len(entry.tokens) for entry in self._entries.values())

    @property
    def nbytes(self) -> int:
        """The memory of what it holds."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def longest(self, bundle: LoadedBundle, tokens: Sequence[int]) -> tuple[int, Arrays]:
        """How many first tokens are here but for the last, whose logits are wanted, and keys and values."""
        wanted = np.asarray(tokens[:-1], np.int64)
        with self._lock:
            sizes = {key: entry.shared(bundle, wanted) for key, entry in self._entries.items()}
            key = max(sizes, key=sizes.__getitem__, default=None)
            if key is None or not sizes[key]:
                return 0, {}
            self._entries.move_to_end(key)
            return sizes[key], self._entries[key].arrays

    def keep(self, bundle: LoadedBundle, tokens: Sequence[int], arrays: Arrays) -> None:
        """Hold what a bundle has read, unless that alone is beyond the budget."""
        entry = _Entry(bundle, np.asarray(tokens, np.int64), arrays)
        if not self._fit([entry]):
            return
        with self._lock:
            for key, other in list(self._entries.items()):
                size = other.shared(bundle, entry.tokens)
                if size == len(entry.tokens):
                    self._entries.move_to_end(key)
                    return
                if size == len(other.tokens):
                    del self._entries[key]
            self._entries[self._next] = entry
            self._next += 1
            while not self._fit(self._entries.values()):
                self._entries.popitem(last=False)

    def _fit(self, entries: Collection[_Entry]) -> bool:
        """Whether the budgets allow for these together."""
        return sum(len(entry.tokens) for entry in entries) <= self.max_tokens and (
            self.max_bytes is None or sum(entry.nbytes for entry in entries) <= self.max_bytes
        )


class _Cache(Protocol):
    """A cache whose rows can be taken out."""

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each row has read."""
        ...

    def row(self, place: int) -> dict[str, np.ndarray]:
        """Keys and values (K,P,H) of what a row has read, by name; copies."""
        ...


class Leavers:
    """Leaves to `store` what rows of a cache have read, their prompts and results, once they are done."""

    def __init__(
        self,
        store: PrefixStore,
        bundle: LoadedBundle,
        cache: _Cache,
        prompts: Sequence[Sequence[int]],
        results: Sequence[Generated],
    ):
        self.store, self.bundle, self.cache = store, bundle, cache
        self.prompts, self.results = prompts, results
        self.rows = list(range(len(results)))

    def select(self, rows: np.ndarray) -> None:
        """Hear that a cache is about to go on with these of its rows."""
        for place in set(range(len(self.rows))).difference(rows.tolist()):
            row = self.rows[place]
            text = [*self.prompts[row], *self.results[row].tokens][: int(self.cache.lengths[place])]
            self.store.keep(self.bundle, text, self.cache.row(place))
        self.rows = [self.rows[place] for place in rows.tolist()]
