"""SHA-256 of files, of ranges of them, and of lists: the Merkle tree of RFC 6962, 2.1."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

CHUNK = 1 << 20  # bytes read at a time
LEAF, NODE = b"\0", b"\1"  # of RFC 6962, so that no node can pass for a leaf


def root(leaves: Iterable[bytes]) -> str:
    """The Merkle tree hash of a list, as hexadecimal digits."""
    full: list[tuple[int, bytes]] = []  # complete trees from left to right: height and hash
    for leaf in leaves:
        height, digest = 0, hashlib.sha256(LEAF + leaf).digest()
        while full and full[-1][0] == height:
            height, digest = height + 1, _node(full.pop()[1], digest)
        full.append((height, digest))
    if not full:
        return hashlib.sha256().hexdigest()
    _, digest = full.pop()
    while full:
        digest = _node(full.pop()[1], digest)
    return digest.hex()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(NODE + left + right).digest()


def root_of(leaves: Iterable[Any]) -> str:
    """The root over dataclasses, each as JSON in ASCII with sorted keys and without spaces."""
    return root(json.dumps(asdict(one), sort_keys=True, separators=(",", ":")).encode() for one in leaves)


def hashed(file: Path, ranges: Sequence[tuple[int, int]]) -> tuple[str, list[str]]:
    """SHA-256 of a file, and of each of its ranges, in one reading.

    A range is an offset and a length; they ascend and do not overlap. Of one that goes beyond the end, the
    bytes that are there are hashed. Raises OSError.
    """
    total, result, position = hashlib.sha256(), [], 0
    with file.open("rb") as stream:
        for offset, length in ranges:
            _feed(stream, offset - position, [total])
            one = hashlib.sha256()
            _feed(stream, length, [total, one])
            result.append(one.hexdigest())
            position = offset + length
        _feed(stream, None, [total])
    return total.hexdigest(), result


def _feed(stream: BinaryIO, count: int | None, digests: Sequence[Any]) -> None:
    """Read `count` bytes, or all that are left, into the digests; fewer at the end of the file."""
    while count is None or count > 0:
        chunk = stream.read(CHUNK if count is None else min(CHUNK, count))
        if not chunk:
            return
        count = None if count is None else count - len(chunk)
        for digest in digests:
            digest.update(chunk)
