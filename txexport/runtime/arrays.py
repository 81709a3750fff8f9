"""Reads .npz files, with sizes checked before decompression."""

import math
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from txexport.errors import TxexportError, first_line

MAX_BYTES = 2**31  # bytes of all arrays of a file
KINDS = "biuf"  # NumPy kinds: bool, int, unsigned, float


def read_npz(path: str | Path, error: type[TxexportError]) -> dict[str, np.ndarray]:
    """The arrays of a file by name. Raises `error` for a file that is damaged, too large or not numeric."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(_bytes(archive, member, error) for member in archive.infolist())
        if total > MAX_BYTES:
            raise error(f"{path} holds {total:,} bytes of arrays, expected at most {MAX_BYTES:,}")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise error(f"{path} is not a file; expected an .npz of arrays by name") from None
    except TxexportError:
        raise
    except Exception as problem:  # zipfile and NumPy raise many types for damaged files
        raise error(f"{path} cannot be read as .npz of arrays: {first_line(problem)}") from None


def _bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo, error: type[TxexportError]) -> int:
    """The size of one array in bytes by its header, checked against its data."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in KINDS:
            raise error(f"{archive.filename}: array '{member.filename}' is {dtype}, expected numbers")
        if size != member.file_size - file.tell():
            raise error(f"{archive.filename}: array '{member.filename}' is not as long as its header says")
    return size
