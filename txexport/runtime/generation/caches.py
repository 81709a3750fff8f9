"""The caches of keys and values, by the kind of a graph and the memory of its session."""

from collections.abc import Mapping

from txexport.runtime.generation.cache_rows import check_room
from txexport.runtime.generation.device_cache import DeviceCache, DeviceRows, rounded
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.running_cache import DynamicRows, StaticRows
from txexport.runtime.session import Session, Value


def open_cache(
    session: Session, kind: str, cross: Mapping[str, Value], batch: int, capacity: int
) -> "StaticCache | DynamicCache":
    """An empty cache of `kind` for `batch` rows; `cross` are the inputs that no step changes.

    Raises InputError where it exceeds the memory.
    """
    if kind == "static" and session.moves is not None:
        capacity = rounded(capacity)
    check_room(session, batch, capacity)
    if kind != "static":
        return DynamicCache(session, cross, batch)
    kind_of_static = StaticCache if session.moves is None else DeviceCache
    return kind_of_static(session, cross, batch, capacity)


def running_cache(session: Session, kind: str) -> "StaticRows | DynamicRows":
    """A cache of `kind` without rows."""
    if kind != "static":
        return DynamicRows(session)
    return StaticRows(session) if session.moves is None else DeviceRows(session)
