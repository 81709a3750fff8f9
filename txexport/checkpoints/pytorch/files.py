"""The location of the tensors of a file of torch.save, in its zip form and the form before PyTorch 1.6."""

import io
import math
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from txexport.checkpoints.pytorch import pickles, state_dicts
from txexport.checkpoints.pytorch.pickles import MOST_BYTES, Tensor
from txexport.checkpoints.stored import SIZES, Stored, reading
from txexport.errors import CheckpointError, TxexportError, UnsupportedError, shown

ZIP = b"PK\x03\x04"  # signature of a member of a zip archive
LOCAL_HEADER = 30  # bytes, without name and extra field
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # in the older form


@dataclass(frozen=True)
class Place:
    """A range of bytes of a file, from `offset` on."""

    offset: int
    nbytes: int


@dataclass(frozen=True)
class Opened:
    """The content of a file: the pickled value, each storage's location by key, and the byte order."""

    value: Any
    places: Mapping[str, Place]
    big_endian: bool = False


def read_index(file: Path) -> dict[str, Stored]:
    """The location of each tensor of a file of torch.save. Raises CheckpointError, UnsupportedError.

    Tensors may share bytes: tied tensors and views are read separately.
    """
    with reading(file), file.open("rb") as stream:
        try:
            size, start = file.stat().st_size, stream.read(len(ZIP))
            stream.seek(0)
            opened = _zip(stream, size) if start == ZIP else _legacy(stream, size)
            tensors = state_dicts.weights(opened.value)
            return {name: _stored(file, name, tensor, opened) for name, tensor in tensors.items()}
        except ValueError as error:
            raise CheckpointError(f"{file} is no file of torch.save, or damaged: {error}") from None
        except TxexportError as error:
            raise type(error)(f"{file} cannot be read: {error}") from None


def _stored(file: Path, name: str, tensor: Tensor, opened: Opened) -> Stored:
    storage, width = tensor.storage, SIZES.get(tensor.storage.dtype, 1)
    place = opened.places.get(storage.key)
    if place is None:
        raise ValueError(f"there are no values for tensor {shown(name)}")
    numbers = storage.start + storage.numel
    if numbers * width > place.nbytes:
        raise ValueError(f"tensor {shown(name)} has {numbers} values, but only {place.nbytes} bytes")
    count, strides = math.prod(tensor.shape), _strides(tensor)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True))
    if count > storage.numel or (count and tensor.offset + last >= storage.numel):
        raise ValueError(
            f"tensor {shown(name)} of {tensor.shape} does not fit its storage of {storage.numel} values"
        )
    offset = place.offset + (storage.start + tensor.offset) * width
    return Stored(file, storage.dtype, tensor.shape, offset, count * width, strides, opened.big_endian)


def _strides(tensor: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor that is not contiguous; else None."""
    step = 1
    for size, stride in zip(tensor.shape[::-1], tensor.strides[::-1], strict=True):
        if size != 1 and stride != step:
            return tensor.strides if math.prod(tensor.shape) else None
        step *= size
    return None


def _zip(stream: BinaryIO, size: int) -> Opened:
    """A zip archive of data.pkl, and a member for each storage. Raises ValueError, UnsupportedError."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members, end = archive.infolist(), archive.start_dir
    except (zipfile.BadZipFile, NotImplementedError, struct.error, OverflowError, EOFError) as error:
        raise ValueError(error) from None
    names = [member.filename for member in members]
    if len(set(names)) != len(names):
        raise ValueError("two of its members have one name")
    pickled = [name for name in names if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickled) != 1:
        raise ValueError("it is a zip archive without one data.pkl")
    folder = pickled[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in names:
        raise UnsupportedError("it is a TorchScript program; save the model's state dict")
    members_at = {member.filename: _place(stream, member, min(end, size)) for member in members}
    _check_apart(members_at)
    value, _ = pickles.load(io.BytesIO(_bytes(stream, members_at[pickled[0]])))
    order = _bytes(stream, members_at[name]) if (name := f"{folder}byteorder") in members_at else b"little"
    if order not in (b"little", b"big"):
        raise ValueError(f"its byteorder is {shown(order)}")
    inside = f"{folder}data/"
    storages = {
        name.removeprefix(inside): place for name, place in members_at.items() if name.startswith(inside)
    }
    return Opened(value, storages, order == b"big")


def _place(stream: BinaryIO, member: zipfile.ZipInfo, end: int) -> Place:
    """The location of a member's bytes, which are the storage's own if it is not compressed."""
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
        raise UnsupportedError(f"its member {shown(member.filename)} is compressed or encrypted")
    stream.seek(member.header_offset)
    header = stream.read(LOCAL_HEADER)
    if len(header) != LOCAL_HEADER or not header.startswith(ZIP):
        raise ValueError(f"its member {shown(member.filename)} is not where its directory says")
    name, extra = struct.unpack_from("<HH", header, 26)
    place = Place(member.header_offset + LOCAL_HEADER + name + extra, member.file_size)
    if place.offset + place.nbytes > end:
        raise ValueError(f"its member {shown(member.filename)} reaches beyond its end")
    return place


def _check_apart(places: Mapping[str, Place]) -> None:
    last, before = 0, ""
    for name, place in sorted(places.items(), key=lambda item: item[1].offset):
        if place.offset < last:
            raise ValueError(f"its member {shown(name)} begins within {shown(before)}")
        last, before = place.offset + place.nbytes, name


def _bytes(stream: BinaryIO, place: Place) -> bytes:
    if place.nbytes > MOST_BYTES:
        raise ValueError(f"{place.nbytes:,} bytes of a member are more than {MOST_BYTES:,}")
    stream.seek(place.offset)
    return stream.read(place.nbytes)


def _legacy(stream: BinaryIO, size: int) -> Opened:
    """A sequence of pickles, the last with the storages' keys; then each storage's size and numbers.

    Numbers are little-endian on every machine. Raises ValueError, UnsupportedError.
    """
    pickled = io.BytesIO(stream.read(MOST_BYTES))
    magic, _ = pickles.load(pickled)
    if magic != MAGIC:
        raise ValueError("it begins with neither a zip archive nor PyTorch's magic number")
    protocol, _ = pickles.load(pickled)
    if protocol != PROTOCOL:
        raise UnsupportedError(f"its protocol is not {PROTOCOL}")
    pickles.load(pickled)  # the machine that wrote it
    value, storages = pickles.load(pickled)
    keys, _ = pickles.load(pickled)
    if not isinstance(keys, list) or len(keys) > len(storages):
        raise ValueError("it does not end with a list of its storages")
    places, offset = {}, pickled.tell()
    for key in keys:
        if type(key) is not str or key not in storages or key in places:
            raise ValueError("its list of storages differs from its tensors' storages")
        stream.seek(offset)
        numel = int.from_bytes(stream.read(8), "little")
        place = places[key] = Place(offset + 8, numel * SIZES.get(storages[key].dtype, 1))
        offset = place.offset + place.nbytes
        if offset > size:
            raise ValueError(f"it is truncated: {size} bytes, {offset} are needed; copy it again")
    return Opened(value, places)
