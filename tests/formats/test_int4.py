"""int4 compared with plain loops: blocks, the search, packing, and deterministic bytes."""

import hashlib

import numpy as np
import pytest

from txexport.errors import GraphError
from txexport.formats import Use, int4, kept, nbytes
from txexport.formats.int4 import BLOCKS, Int4
from txexport.formats.number_format import packed, unpacked

INT4_32, INT4_128 = BLOCKS[32], BLOCKS[128]
FORMATS = pytest.mark.parametrize("form", [INT4_32, INT4_128], ids=["32", "128"])
SHAPES = [(1, 1), (3, 5), (5, 32), (7, 33), (48, 100), (31, 129), (6, 256)]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random rows of many magnitudes, some with an offset."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-3, 4, (shape[0], 1))
    return ((rng.standard_normal(shape) + rng.integers(-1, 2, (shape[0], 1))) * sizes).astype(np.float32)


def encoded(form, rows, shape) -> dict[str, np.ndarray]:
    """The parts, each whole."""
    blocks: dict[str, list[np.ndarray]] = {}
    for part, block in form.encode(rows, shape):
        blocks.setdefault(part, []).append(np.array(block))
    own = form.parts(shape)
    return {name: np.concatenate(some).reshape(own[name].stored_shape) for name, some in blocks.items()}


def nibble(bytes_: np.ndarray, index: int) -> int:
    """The integer at a flat index: even ones lie in the lower half of a byte."""
    return (int(bytes_[index // 2]) >> (4 * (index % 2))) & 15


def by_hand(form, parts: dict[str, np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """The dequantised numbers (out,in), one by one, as ONNX's blocked DequantizeLinear defines them."""
    outputs, inputs = shape
    result = np.empty(shape)
    for i in range(outputs):
        for j in range(inputs):
            block = j // form.block
            zero = nibble(parts["zero"], block * outputs + i)
            result[i, j] = (nibble(parts[""], j * outputs + i) - zero) * float(parts["scale"][block, i])
    return result


def blocks_of(matrix: np.ndarray, size: int) -> list[np.ndarray]:
    """Each row's blocks, the last perhaps short."""
    return [row[at : at + size] for row in matrix for at in range(0, len(row), size)]


def min_max(block: np.ndarray) -> np.ndarray:
    """Plain asymmetric rounding in float64, with a range from minimum to maximum that includes 0."""
    low, high = min(block.min(), 0.0), max(block.max(), 0.0)
    scale = (high - low) / 15 or 1.0
    zero = np.clip(np.rint(-low / scale), 0, 15)
    return (np.clip(np.rint(block / scale) + zero, 0, 15) - zero) * scale


def absmax(block: np.ndarray) -> np.ndarray:
    """Plain symmetric rounding in float64."""
    scale = np.abs(block).max() / 7 or 1.0
    return np.clip(np.rint(block / scale), -8, 7) * scale


def error(found: np.ndarray, block: np.ndarray) -> float:
    return float(((found - block) ** 2).sum())


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_reads_back_as_onnx_says(form, shape):
    parts = encoded(form, [numbers(shape)], shape)
    assert {name: part.dtype.name for name, part in parts.items()} == {
        "": "uint8",
        "zero": "uint8",
        "scale": "float32",
    }
    read = form.decode(parts, shape)
    assert (read.shape, read.dtype) == (shape, np.float32)
    assert (read == by_hand(form, parts, shape).astype(np.float32)).all()


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_search_is_never_worse_than_plain_rounding(form, shape):
    """Block by block than by minimum and maximum, and in total than by the absolute maximum."""
    matrix = numbers(shape, 1)
    wide = matrix.astype(np.float64)
    read = kept(form, [matrix], shape).astype(np.float64)
    ours, plain, symmetric = 0.0, 0.0, 0.0
    pairs = zip(blocks_of(read, form.block), blocks_of(wide, form.block), strict=True)
    for found, block in pairs:
        size = float((block**2).sum())
        assert error(found, block) <= error(min_max(block), block) + 1e-6 * size
        ours += error(found, block) / size
        plain += error(min_max(block), block) / size
        symmetric += error(absmax(block), block) / size
    assert ours <= plain + 1e-9
    assert ours <= symmetric + 1e-9
    if min(shape) > 30:
        assert ours < 0.95 * plain
        assert ours < 0.9 * symmetric


def test_an_outlier_is_cut_where_that_is_better():
    """A range that includes it would leave fewer steps for the other 127."""
    block = np.array([[*np.linspace(-1, 1, 127), 1.6]], np.float32)
    wide = block[0].astype(np.float64)
    read = kept(INT4_128, [block], block.shape)[0]
    assert read.max() < 1.5
    assert error(read, wide) < 0.9 * error(min_max(wide), wide)


def test_numbers_on_a_grid_are_kept():
    """Sixteen steps from 0, from below it, and up to it."""
    steps = np.tile(np.arange(16), 2)
    matrix = np.array([steps * 0.5, (steps - 8) * 0.25, (steps - 15) * 2.0], np.float32)
    parts = encoded(INT4_32, [matrix], matrix.shape)
    assert [nibble(parts["zero"], row) for row in range(3)] == [0, 8, 15]
    assert parts["scale"].tolist() == [[0.5, 0.25, 2.0]]
    assert [[nibble(parts[""], j * 3 + i) for j in range(32)] for i in range(3)] == [steps.tolist()] * 3
    assert (kept(INT4_32, [matrix], matrix.shape) == matrix).all()


def test_ties_go_to_even():
    row = np.array([[15, 0.5, 1.5, 2.5, 3.5, *[0] * 27]], np.float32)
    whole = row.T[:, None].reshape(32, 1, 1)
    _, scale, zero, _ = int4._tried(whole, np.zeros((1, 1), "f4"), np.full((1, 1), 15, "f4"))
    assert (scale.tolist(), zero.tolist()) == ([[1]], [[0]])
    integers = int4._integers(whole, scale, zero)
    assert integers[:5, 0, 0].tolist() == [15, 0, 2, 2, 4]


@FORMATS
def test_a_block_of_zeros_stays_one(form):
    matrix = numbers((3, 300))
    matrix[1, : form.block] = 0
    matrix[2] = 0
    read = kept(form, [matrix], matrix.shape)
    assert not read[1, : form.block].any()
    assert not read[2].any()
    assert read[1, form.block :].any()
    parts = encoded(form, [matrix], matrix.shape)
    assert (parts["scale"] > 0).all()


@FORMATS
@pytest.mark.parametrize("number", [3.0, -3.0, 1e-45, -1e-45, 1e15, -1e15])
def test_a_block_of_one_number(form, number):
    """The errors are float32's rounding of sums, and the smallest number alone."""
    matrix = np.full((2, 40), number, np.float32)
    read = kept(form, [matrix], matrix.shape)
    assert np.isfinite(read).all()
    assert np.abs(read - matrix).max() <= max(1e-6 * abs(number), 2e-45)


@FORMATS
@pytest.mark.parametrize("inputs", [1, 31, 33, 127, 129, 160])
def test_a_short_last_block_is_searched_by_itself(form, inputs):
    """Its padding affects neither its range nor another block."""
    matrix = numbers((9, inputs), 2)
    start = (inputs - 1) // form.block * form.block
    parts = encoded(form, [matrix], matrix.shape)
    assert parts["scale"].shape == (-(-inputs // form.block), 9)
    read = kept(form, [matrix], matrix.shape)
    if start:
        assert (read[:, :start] == kept(form, [matrix[:, :start]], (9, start))).all()
    assert (read[:, start:] == kept(form, [matrix[:, start:]], (9, inputs - start))).all()


def test_the_first_of_two_lies_in_the_lower_half():
    assert packed(np.array([[1, 2, 3], [4, 5, 15]], np.uint8)).tolist() == [0x21, 0x43, 0xF5]
    assert packed(np.array([7, 8, 9], np.uint8)).tolist() == [
        0x87,
        0x09,
    ]  # nothing above the last of an odd number
    assert unpacked(np.array([0x87, 0x09], np.uint8), (3,)).tolist() == [7, 8, 9]
    for shape in ((1, 1), (3, 5), (2, 7), (4, 4)):
        integers = np.random.default_rng(0).integers(0, 16, shape).astype(np.uint8)
        assert (unpacked(packed(integers), shape) == integers).all()
        assert [nibble(packed(integers), i) for i in range(integers.size)] == integers.reshape(-1).tolist()


@FORMATS
@pytest.mark.parametrize("step", [3, 16])
def test_blocks_memory_and_how_many_are_searched_at_once_change_no_byte(form, step, monkeypatch):
    shape = (16, 133)
    matrix = numbers(shape, 3)
    expected = {name: part.tobytes() for name, part in encoded(form, [matrix], shape).items()}
    apart = np.zeros((32, 266), np.float32)
    apart[::2, ::2] = matrix
    for held, at_once in ((matrix, 1), (np.asfortranarray(matrix), 133 * 5), (apart[::2, ::2], 1 << 18)):
        monkeypatch.setattr(int4, "AT_ONCE", at_once)
        blocks = [held[first : first + step] for first in range(0, shape[0], step)]
        found = encoded(form, blocks, shape)
        assert {name: part.tobytes() for name, part in found.items()} == expected


def test_these_bytes_are_every_processor_s():
    """verify recomputes them, perhaps on another machine: they may not depend on its order of summation."""
    steps = (np.arange(64 * 200, dtype=np.uint64) * 2654435761 % 2**32).astype(np.float64) / 2**31 - 1
    matrix = (steps * steps * steps).astype(np.float32).reshape(64, 200)
    digest = hashlib.sha256()
    for part in encoded(INT4_32, [matrix], matrix.shape).values():
        digest.update(part.tobytes())
    assert digest.hexdigest() == "05a29522bb1d70d5eb9c0e69fa2bb2cf80f9216a2a6866b87b342b40c06d0679"


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_was_rounded_is_kept_nearly(form, shape):
    """Rounded numbers lie on a grid, which the search finds again but for float32's own rounding."""
    once = kept(form, [numbers(shape, 4)], shape)
    twice = kept(form, [once], shape)
    for found, block in zip(blocks_of(twice, form.block), blocks_of(once, form.block), strict=True):
        assert error(found.astype(np.float64), block) <= error(
            min_max(block.astype(np.float64)), block
        ) + 1e-9 * error(block, np.zeros_like(block))


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_say_what_is_stored(form, shape):
    parts, own = encoded(form, [numbers(shape)], shape), form.parts(shape)
    assert [*own] == [*parts] == ["", "zero", "scale"]
    blocks = -(-shape[1] // form.block)
    assert [part.shape for part in own.values()] == [shape[::-1], (blocks, shape[0]), (blocks, shape[0])]
    assert {name: part.nbytes for name, part in own.items()} == {
        name: part.nbytes for name, part in parts.items()
    }
    count = shape[0] * shape[1], shape[0] * blocks
    assert nbytes(form, shape) == -(-count[0] // 2) + -(-count[1] // 2) + 4 * count[1]


def test_a_block_s_size_is_its_own():
    matrix = numbers((16, 256), 5)
    errors = [error(kept(Int4(size), [matrix], matrix.shape), matrix) for size in (16, 32, 128, 256)]
    assert errors == sorted(errors)


def test_uses_that_it_has_not_are_refused():
    for use in (Use.WHOLE, Use.LOOKUP):
        with pytest.raises(GraphError, match=r"^word is stored as int4 in blocks of 32"):
            INT4_32.stand(None, "word", {}, use)


def test_blocks_fill_the_inputs_where_some_do():
    """OpenVINO requires whole blocks: 896 is 7 blocks of 128, 48 are 3 of 16, and 100 has no divisor."""
    sizes = [(block, inputs) for block in (32, 128) for inputs in (896, 48, 64, 100)]
    found = {size: int4.in_blocks(*size).block for size in sizes}
    assert found == {
        (32, 896): 32,
        (32, 48): 16,
        (32, 64): 32,
        (32, 100): 32,
        (128, 896): 128,
        (128, 48): 16,
        (128, 64): 64,
        (128, 100): 128,
    }
