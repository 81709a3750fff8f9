"""Corrupted GGUF files are refused in one line, before time or memory is used."""

import struct
import time
import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tiny_checkpoint
import tiny_gguf
from tiny_gguf import ARRAY, STRING, U32, floats, text, typed

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.gguf import container
from txexport.errors import CheckpointError, TxexportError, UnsupportedError

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
TENSORS = {"a": ((2, 3), floats("a", NUMBERS)), "b": ((3,), floats("b", NUMBERS[0]))}
HEAD = struct.Struct("<4sIQQ")


def head(tensors: int, keys: int, version: int = 3) -> bytes:
    return HEAD.pack(b"GGUF", version, tensors, keys)


def entry(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)


def table(*entries: bytes, data: int = 256) -> bytes:
    """A file of these entries and that many bytes of tensor data."""
    written = head(len(entries), 0) + b"".join(entries)
    return written + bytes(-len(written) % 32) + bytes(data)


def test_metadata_and_tensors_are_read(tmp_path):
    values = {"a": 3, "b": True, "c": 1e-6, "d": "\u65e5", "e": ["x", ""], "f": [1, -2], "g": [0.5, 2.0]}
    read = container.read(tiny_gguf.write(tmp_path / "a.gguf", values, TENSORS))
    numbers = {key: read.metadata[key].tolist() for key in "fg"}
    assert dict(read.metadata) | numbers == values
    assert [(name, one.shape) for name, one in read.tensors.items()] == [("a", (2, 3)), ("b", (3,))]
    data = (tmp_path / "a.gguf").read_bytes()
    place = read.tensors["a"].offset
    assert data[place : place + 24] == NUMBERS.tobytes()


def test_every_scalar_type_is_read(tmp_path):
    packed = {"u1": (0, "<B", 200), "i1": (1, "<b", -3), "u2": (2, "<H", 60000), "i2": (3, "<h", -300)}
    packed |= {"i4": (5, "<i", -70000), "u8": (10, "<Q", 2**63), "i8": (11, "<q", -(2**40))}
    packed |= {"f8": (12, "<d", 0.1)}
    body = b"".join(
        text(key) + struct.pack("<I", kind) + struct.pack(how, value)
        for key, (kind, how, value) in packed.items()
    )
    (tmp_path / "a").write_bytes(head(0, len(packed)) + body)
    assert container.read(tmp_path / "a").metadata == {key: value for key, (_, _, value) in packed.items()}


def test_version_2_is_read_and_others_are_named(tmp_path):
    assert container.read(tiny_gguf.write(tmp_path / "a", {}, TENSORS, version=2)).tensors.keys() == {
        "a",
        "b",
    }
    for version, words in ((1, "version 1"), (4, "version 4"), (3 << 24, "big-endian")):
        (tmp_path / "b").write_bytes(head(0, 0, version))
        with pytest.raises(UnsupportedError, match=words):
            container.read(tmp_path / "b")


KEY = text("k")
ENDLESS = KEY + struct.pack("<IIQ", ARRAY, STRING, 2**60)
DAMAGED = {
    "empty": (b"", "its first word takes 4 bytes, but 0 are left"),
    "other": (b"PK\3\4" + bytes(60), "it does not begin with GGUF"),
    "short": (head(0, 0)[:20], "takes 8 bytes, but 4 are left"),
    "tensors": (head(2**62, 0) + bytes(64), "tensors, 0 keys takes"),
    "keys": (head(0, 2**62) + bytes(64), "keys takes"),
    "string": (head(0, 1) + struct.pack("<Q", 2**63) + bytes(40), "a key takes"),
    "not text": (head(0, 1) + struct.pack("<Q", 2) + b"\xff\xff" + bytes(40), "a key is not UTF-8"),
    "type": (head(0, 1) + KEY + struct.pack("<I", 13) + bytes(40), "is of type 13"),
    "array": (head(0, 1) + KEY + struct.pack("<IIQ", ARRAY, U32, 2**60) + bytes(40), "value of 'k' takes"),
    "strings": (head(0, 1) + ENDLESS + bytes(40), "value of 'k' takes"),
    "nested": (head(0, 1) + KEY + struct.pack("<IIQ", ARRAY, ARRAY, 1) + bytes(40), "an array of type 9"),
    "twice": (head(0, 2) + 2 * (KEY + typed(1)), "its key 'k' occurs twice"),
    "alignment": (head(0, 1) + text("general.alignment") + typed(24) + bytes(40), "expected a power of 2"),
    "no alignment": (head(0, 1) + text("general.alignment") + typed(0) + bytes(40), "expected a power of 2"),
    "same": (table(entry("a", (2,)), entry("a", (2,), offset=32)), "tensor 'a' occurs twice"),
    "axes": (table(entry("a", (1, 1, 1, 1, 1))), "5 dimensions, expected up to 4"),
    "place": (table(entry("a", (2,), offset=4)), "begins at 4, expected a multiple of 32"),
    "overlap": (table(entry("a", (20,)), entry("b", (2,), offset=64)), "'b' begins within tensor 'a'"),
    "truncated": (table(entry("a", (2, 40)), data=256), "is truncated: 352 bytes, its header promises 416"),
    "far": (table(entry("a", (2,), offset=2**63)), "is truncated"),
    "huge": (table(entry("a", (2**63, 2**63))), "is truncated"),
    "blocks": (table(entry("a", (2, 33), 8)), "of Q8_0 has rows of 33, expected blocks of 32"),
    "scalar": (table(entry("a", (), 8)), "has rows of 1, expected blocks of 32"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_refused_in_a_line(what, tmp_path):
    data, words = DAMAGED[what]
    (tmp_path / "a.gguf").write_bytes(data)
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(CheckpointError) as caught:
            container.read(tmp_path / "a.gguf")
        assert time.process_time() - start < 1
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("kind", "name"), [(16, "IQ2_XXS"), (19, "IQ1_S"), (34, "TQ1_0"), (26, "I32"), (99, "number 99")]
)
def test_a_type_that_is_not_read_is_named(kind, name, tmp_path):
    (tmp_path / "a.gguf").write_bytes(table(entry("w", (2, 256), kind)))
    with pytest.raises(UnsupportedError, match=f"tensor 'w' is of type {name}; supported are F32, F16, Q4_0"):
        container.read(tmp_path / "a.gguf")


@pytest.fixture(scope="module")
def seed(tmp_path_factory) -> bytes:
    """A whole small model."""
    folder = tmp_path_factory.mktemp("seed")
    tiny_checkpoint.save(folder / "llama", "llama", num_hidden_layers=1)
    return tiny_gguf.convert(folder / "llama", folder / "a.gguf", pre="llama-bpe").read_bytes()


def test_changed_bytes_are_refused_or_read(seed, tmp_path):
    """Only txexport's own errors, whatever the value of a header's byte."""
    random, file, header = Random(5), tmp_path / "a.gguf", seed.index(b"blk.0.ffn_down") + 1500
    messages = []
    for _ in range(300):
        data = bytearray(seed)
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(header)] = random.choice((0, 1, 2, 127, 128, 255, random.randrange(256)))
        file.write_bytes(data[: random.randrange(len(data))] if random.random() < 0.1 else data)
        try:
            Checkpoint(file).companions()
        except TxexportError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all(message.isprintable() for message in messages)


def test_a_folder_of_one_file_is_that_file_and_of_several_is_refused(seed, tmp_path):
    (tmp_path / "a.gguf").write_bytes(seed)
    assert Checkpoint(tmp_path).folder == tmp_path / "a.gguf"
    (tmp_path / "b.gguf").write_bytes(seed)
    with pytest.raises(CheckpointError, match=r"holds 2 GGUF files \(a.gguf, b.gguf\); give the path of one"):
        Checkpoint(tmp_path)


def test_what_is_no_gguf_file_is_told(tmp_path):
    Path(tmp_path / "notes.txt").write_text("the cat sat on the mat")
    with pytest.raises(CheckpointError, match="is not a GGUF file: it does not begin with GGUF"):
        Checkpoint(tmp_path / "notes.txt")
    with pytest.raises(CheckpointError, match="is not a folder"):
        Checkpoint(tmp_path / "missing.gguf")
