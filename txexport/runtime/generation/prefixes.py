"""Prefix cache: reuses the keys and values of a prompt's prefix, or a whole sequence's states.

Shape letters are those of txmodels: K key/value heads, P tokens, H head size.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from txexport.contracts.cache_names import is_state, numbers_of_token
from txexport.errors import InputError, shown
from txexport.runtime.generation.media import Media, shared_length
from txexport.runtime.generation.search import Generated
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.support.arguments import is_whole

TOKENS = 65_536  # default of max_tokens

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Entry:
    """A token sequence (P) with its media, and the cache of a row of a bundle by name; read-only.

    The cache has keys and values (K,P,H), and states, if the bundle keeps any.
    """

    bundle: LoadedBundle
    tokens: np.ndarray
    arrays: Arrays
    media: Media

    @property
    def nbytes(self) -> int:
        """The size of the keys, values and states in bytes."""
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def size(self) -> int:
        """The tokens that it counts as: its own, and as many as have keys and values of its states' size.

        Without keys, a token's size is what it takes in states that are the last tokens.
        """
        count, states = len(self.tokens), {name: a for name, a in self.arrays.items() if is_state(name)}
        if not states:
            return count
        size = sum(array.nbytes for array in states.values())
        if keys := self.nbytes - size:
            return count + -(-size * count // keys)
        column = sum(a.itemsize * numbers_of_token(name, a.shape) for name, a in states.items())
        return count + -(-size // column)

    def shared(self, bundle: LoadedBundle, tokens: np.ndarray, media: Media) -> int:
        """The length of the common prefix with a sequence that can be reused; 0 for another bundle.

        States belong to the whole stored sequence, so the result is its length or 0.
        """
        if self.bundle is not bundle or (bundle.crosses_images and self.media != media):
            return 0  # tokens before the first image attend to all of them
        size = min(len(self.tokens), len(tokens))
        differ = np.flatnonzero(self.tokens[:size] != tokens[:size])
        length = int(differ[0]) if len(differ) else size
        length = shared_length(length, self.media, media)
        return 0 if bundle.keeps_states and length < len(self.tokens) else length


class PrefixStore:
    """A cache of prompt prefixes, for one session or for all requests of a server; thread-safe.

    It holds at most `max_tokens` tokens and `max_bytes` bytes of keys, values and states (None: no limit),
    and evicts the least recently used sequence first. States count as the tokens whose keys and values are as
    large. A sequence that is a prefix of another one is not stored, except where a model keeps states, of
    which only those of a whole sequence can be reused. Two prompts share a prefix up to the first token id,
    or the first medium's digest, that differs. Raises InputError unless the limits are whole numbers of at
    least 1.
    """

    def __init__(self, max_tokens: int = TOKENS, max_bytes: int | None = None):
        for name, value in (("max_tokens", max_tokens), ("max_bytes", max_bytes)):
            if not is_whole(value, 1) and not (name == "max_bytes" and value is None):
                raise InputError(f"{name} is {shown(value)}, expected a whole number of at least 1")
        self.max_tokens, self.max_bytes = max_tokens, max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()  # most recently used last
        self._next = 0

    def __len__(self) -> int:
        """The number of tokens stored."""
        with self._lock:
            return sum(len(entry.tokens) for entry in self._entries.values())

    @property
    def nbytes(self) -> int:
        """The size of all keys, values and states in bytes."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries.values())

    def clear(self) -> None:
        """Remove all sequences."""
        with self._lock:
            self._entries.clear()

    def longest(self, bundle: LoadedBundle, tokens: Sequence[int], media: Media = ()) -> tuple[int, Arrays]:
        """The length of the longest stored prefix, with its keys and values.

        It leaves out at least the last token, whose logits the caller needs.
        """
        wanted = np.asarray(tokens[:-1], np.int64)
        with self._lock:
            sizes = {key: entry.shared(bundle, wanted, media) for key, entry in self._entries.items()}
            key = max(sizes, key=sizes.__getitem__, default=None)
            if key is None or not sizes[key]:
                return 0, {}
            self._entries.move_to_end(key)
            return sizes[key], self._entries[key].arrays

    def keep(self, bundle: LoadedBundle, tokens: Sequence[int], arrays: Arrays, media: Media = ()) -> None:
        """Store a sequence with its keys and values, unless it exceeds a limit by itself."""
        known = tuple(replace(one, features=None, keys=None) for one in media)  # compared by digest alone
        entry = _Entry(bundle, np.asarray(tokens, np.int64), arrays, known)
        if not self._fit([entry]):
            return
        with self._lock:
            for key, other in list(self._entries.items()):
                size = other.shared(bundle, entry.tokens, media)
                if size == len(entry.tokens):
                    self._entries.move_to_end(key)
                    return
                if size == len(other.tokens) and not bundle.keeps_states:
                    del self._entries[key]
            self._entries[self._next] = entry
            self._next += 1
            while not self._fit(self._entries.values()):
                self._entries.popitem(last=False)

    def _fit(self, entries: Collection[_Entry]) -> bool:
        """Return whether these entries together are within the limits."""
        return sum(entry.size for entry in entries) <= self.max_tokens and (
            self.max_bytes is None or sum(entry.nbytes for entry in entries) <= self.max_bytes
        )


class _Cache(Protocol):
    """A key/value cache whose rows can be copied."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens in each row's cache (R)."""
        ...

    def row(self, place: int) -> dict[str, np.ndarray]:
        """Copies of a row's keys and values (K,P,H) by name."""
        ...


class FinishedRowRecorder:
    """Stores the keys and values of finished rows of a cache: of their prompts and of their new tokens."""

    def __init__(
        self,
        store: PrefixStore,
        bundle: LoadedBundle,
        cache: _Cache,
        prompts: Sequence[Sequence[int]],
        results: Sequence[Generated],
        media: Sequence[Media],
    ):
        self.store, self.bundle, self.cache = store, bundle, cache
        self.prompts, self.results, self.media = prompts, results, media
        self.rows = list(range(len(results)))

    def select(self, rows: np.ndarray) -> None:
        """Store the rows that are not in `rows`; call it before the cache drops them."""
        for position in set(range(len(self.rows))).difference(rows.tolist()):
            row = self.rows[position]
            tokens = [*self.prompts[row], *self.results[row].tokens][: int(self.cache.lengths[position])]
            self.store.keep(self.bundle, tokens, self.cache.row(position), self.media[row])
        self.rows = [self.rows[position] for position in rows.tolist()]
