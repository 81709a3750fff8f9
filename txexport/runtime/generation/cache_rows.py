"""The memory of a row's keys, values and states, and what caches of both kinds do with rows."""

import math
from collections.abc import Mapping

import numpy as np

from txexport.contracts.cache_names import is_cross, is_past, own_past
from txexport.contracts.names import SOURCES
from txexport.errors import counted
from txexport.runtime import memory
from txexport.runtime.generation.states import column_bytes, state_bytes
from txexport.runtime.session import Session, Value

SETS = 2  # of states: those that a step reads, and those that it writes


def check_room(session: Session, rows: int, capacity: int, more: int = 0) -> None:
    """Raise InputError where `rows` of `capacity` tokens, with `more` bytes a row, exceed the memory."""
    more += SETS * state_bytes(session)
    memory.check(
        f"a cache of {counted(rows, 'row')} of {counted(capacity, 'token')}",
        rows * (capacity * token_bytes(session) + more),
    )


def token_bytes(session: Session) -> int:
    """The bytes of a token's keys and values in all layers."""
    return sum(
        math.prod(per_token(session, name)) * session.dtype(name)().nbytes
        for name in own_past(session.inputs)
    )


def state_tokens(session: Session) -> int:
    """The number of tokens whose keys and values are as large as a row's states, both sets, rounded up.

    Without keys, a token's size is what it takes in states that are the last tokens.
    """
    size = SETS * state_bytes(session)
    return -(-size // (token_bytes(session) or column_bytes(session))) if size else 0


def per_token(session: Session, name: str) -> tuple[int, int]:
    """The number of heads of the cache `name`, and their size."""
    _, heads, _, size = session.inputs[name].shape
    assert isinstance(heads, int)
    assert isinstance(size, int)
    return heads, size


def shares_sources(session: Session) -> bool:
    """Return whether all keys and values of cross-attention have a batch of their own, that of sources."""
    cross = [port for name, port in session.inputs.items() if is_past(name) and is_cross(name)]
    return bool(cross) and all(port.shape[0] == SOURCES for port in cross)


def rows_of(session: Session, values: Mapping[str, Value], rows: np.ndarray) -> dict[str, Value]:
    """Rows of values, in that order."""
    if session.moves is not None:
        return dict(session.moves.rows(values, rows))
    return {name: session.value(np.ascontiguousarray(value.numpy()[rows])) for name, value in values.items()}
