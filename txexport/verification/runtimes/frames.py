"""Messages to runtimes in JavaScript: JSON and the bytes of tensors in one frame; js/frames.mjs is its twin.

A frame is the length of its JSON in 4 bytes, little-endian; the JSON; and each tensor's numbers in the order
of the JSON's `tensors`.
"""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txexport.runtime.engines.computed import Arrays, Compute

LENGTH = struct.Struct("<I")

Send = Callable[[bytes], bytes]


def encode(message: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> bytes:
    """A frame of a message and of tensors of float32, int64 or bool."""
    listed = [
        {"name": name, "type": array.dtype.name, "dims": list(array.shape)} for name, array in tensors.items()
    ]
    head = json.dumps({**message, "tensors": listed}).encode()
    return b"".join([LENGTH.pack(len(head)), head, *(array.tobytes() for array in tensors.values())])


def decode(frame: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The message and the tensors of a frame."""
    start = LENGTH.size + LENGTH.unpack_from(frame)[0]
    message, tensors = json.loads(frame[LENGTH.size : start]), {}
    for listed in message.pop("tensors"):
        kind, count = np.dtype(listed["type"]), int(np.prod(listed["dims"], dtype=np.int64))
        array = np.frombuffer(frame, kind, count, start)
        tensors[listed["name"]] = array.reshape(listed["dims"])
        start += array.nbytes
    return message, tensors


def builder(
    send: Send,
    about: Callable[[Path], dict[str, Any]],
    refused: Callable[[RuntimeError], None] = lambda _: None,
) -> Callable[[Path], Compute]:
    """A function that loads a graph in another process; `send` takes a frame and returns the answer's.

    `about` gives the properties of a graph to send. Raises RuntimeError if the other process refuses, after
    a call of `refused`.
    """

    def ask(message: dict[str, Any], tensors: Arrays) -> tuple[dict[str, Any], Arrays]:
        answer, result = decode(send(encode(message, tensors)))
        if "error" in answer:
            error = RuntimeError(answer["error"])
            refused(error)
            raise error
        return answer, result

    def build(path: Path) -> Compute:
        loaded, _ = ask({"call": "load", **about(path)}, {})
        return lambda feeds: ask({"call": "run", "session": loaded["session"]}, feeds)[1]

    return build
