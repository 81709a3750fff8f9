"""int8 compared with plain Python: scales, ties, rows of zeros, and the same bytes on every path."""

import math
import struct

import numpy as np
import pytest

from txexport.errors import GraphError
from txexport.formats import Use, kept, nbytes
from txexport.formats.int8 import INT8_CENTRED, INT8_IN_OUT, INT8_ROWS

FORMATS = pytest.mark.parametrize(
    "form", [INT8_ROWS, INT8_IN_OUT, INT8_CENTRED], ids=["rows", "in_out", "centred"]
)
SHAPES = [(1, 1), (1, 33), (5, 7), (33, 31), (48, 100), (311, 48)]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random rows, of magnitudes from a thousandth to a thousand."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-3, 4, (shape[0], 1))
    return (rng.standard_normal(shape) * sizes).astype(np.float32)


def float32(number: float) -> float:
    """The nearest float32, as Python's own packing has it."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def by_hand(row: np.ndarray) -> tuple[list[int], float]:
    """A row's integers and scale, number by number; Python's round breaks ties to even."""
    largest = max(abs(float(number)) for number in row)
    scale = float32(largest / 127) or 1.0
    return [max(-127, min(127, round(float32(float(number) / scale)))) for number in row], scale


def encoded(form, rows, shape) -> dict[str, np.ndarray]:
    """The parts, each whole."""
    blocks: dict[str, list[np.ndarray]] = {}
    for part, block in form.encode(rows, shape):
        blocks.setdefault(part, []).append(np.array(block))
    own = form.parts(shape)
    return {name: np.concatenate(some).reshape(own[name].stored_shape) for name, some in blocks.items()}


def integers_of(form, parts: dict[str, np.ndarray]) -> np.ndarray:
    """The integers (out,in), in either layout."""
    return parts[""] if form is INT8_ROWS else parts[""].T


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_what_plain_python_makes_of_each_row(form, shape):
    matrix = numbers(shape)
    parts = encoded(form, [matrix], shape)
    assert (parts[""].dtype, parts["scale"].dtype) == (np.int8, np.float32)
    whole = integers_of(form, parts)
    read = form.decode(parts, shape)
    assert (read.shape, read.dtype) == (shape, np.float32)
    for row, ours, scale, back in zip(matrix, whole, parts["scale"], read, strict=True):
        expected, size = by_hand(row)
        assert (ours.tolist(), float(scale)) == (expected, size)
        assert max(abs(number) for number in expected) == 127
        assert back.tolist() == [float32(number * size) for number in expected]
        assert np.abs(back.astype(np.float64) - row).max() <= size * 0.5001


@FORMATS
def test_ties_go_to_even(form):
    row = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5]], np.float32)
    parts = encoded(form, [row], row.shape)
    assert parts["scale"].tolist() == [1]
    assert integers_of(form, parts).tolist() == [[127, 0, 2, 2, 0, -2, -2, 126, -126]]


@FORMATS
def test_a_row_of_zeros_stays_one(form):
    matrix = numbers((3, 40))
    matrix[1] = 0
    parts = encoded(form, [matrix], matrix.shape)
    read = form.decode(parts, matrix.shape)
    assert parts["scale"][1] == 1
    assert not integers_of(form, parts)[1].any()
    assert not read[1].any()
    assert read[[0, 2]].any(axis=1).all()


@FORMATS
def test_the_smallest_numbers_make_nothing_that_is_not_finite(form):
    """A scale below float32's range would divide by 0."""
    matrix = np.array([[1e-45, -1e-45], [1e-40, -3e-41], [1e15, -1e15]], np.float32)
    read = kept(form, [matrix], matrix.shape)
    assert np.isfinite(read).all()
    assert read[2].tolist() == matrix[2].tolist()


@FORMATS
def test_a_negative_largest_number_is_minus_127(form):
    """The integers are symmetric: -128, which has no negative, is never stored."""
    matrix = -np.abs(numbers((16, 64)))
    whole = integers_of(form, encoded(form, [matrix], matrix.shape))
    assert whole.min(axis=1).tolist() == [-127] * 16


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_was_rounded_is_rounded_to_the_same(form, shape):
    """A checkpoint of the dequantised numbers gives the same file."""
    matrix = numbers(shape, 1)
    first = encoded(form, [matrix], shape)
    again = encoded(form, [form.decode(first, shape)], shape)
    assert {name: part.tobytes() for name, part in again.items()} == {
        name: part.tobytes() for name, part in first.items()
    }


@FORMATS
@pytest.mark.parametrize("step", [1, 3, 7, 48])
def test_blocks_and_memory_change_no_byte(form, step):
    shape = (48, 33)
    matrix = numbers(shape, 2)
    expected = {name: part.tobytes() for name, part in encoded(form, [matrix], shape).items()}
    apart = np.zeros((96, 66), np.float32)
    apart[::2, ::2] = matrix
    for held in (matrix, np.asfortranarray(matrix), apart[::2, ::2], matrix[::-1].copy()[::-1]):
        blocks = [held[first : first + step] for first in range(0, shape[0], step)]
        found = encoded(form, blocks, shape)
        assert {name: part.tobytes() for name, part in found.items()} == expected


@FORMATS
def test_the_input_is_left_as_it_is(form):
    matrix = numbers((9, 20))
    before = matrix.copy()
    kept(form, [matrix], matrix.shape)
    assert (matrix == before).all()


@FORMATS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_say_what_is_stored(form, shape):
    parts, own = encoded(form, [numbers(shape)], shape), form.parts(shape)
    assert [*own] == [*parts] == ["", "scale", "sums"][: 3 if form is INT8_CENTRED else 2]
    assert own[""].shape == (shape if form is INT8_ROWS else shape[::-1])
    assert {name: part.nbytes for name, part in own.items()} == {
        name: part.nbytes for name, part in parts.items()
    }
    assert nbytes(form, shape) == math.prod(shape) + 4 * shape[0] * (len(own) - 1)


def test_both_lie_otherwise_and_keep_the_same():
    matrix = numbers((33, 48), 3)
    rows, turned = (encoded(form, [matrix], matrix.shape) for form in (INT8_ROWS, INT8_IN_OUT))
    assert (turned[""] == rows[""].T).all()
    assert (rows["scale"] == turned["scale"]).all()
    assert (kept(INT8_ROWS, [matrix], matrix.shape) == kept(INT8_IN_OUT, [matrix], matrix.shape)).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_those_of_the_numbers_that_are_kept(shape):
    """To the last bit or two of float32, with any cancellation."""
    parts = encoded(INT8_CENTRED, [numbers(shape, 4)], shape)
    for integers, scale, total in zip(parts[""].T, parts["scale"], parts["sums"], strict=True):
        assert total == float32(float(scale) * sum(map(int, integers)))


def test_uses_that_it_has_not_are_refused():
    for form, use in ((INT8_ROWS, Use.WHOLE), (INT8_IN_OUT, Use.WHOLE), (INT8_IN_OUT, Use.LOOKUP)):
        with pytest.raises(GraphError, match=r"^word is stored as int8"):
            form.stand(None, "word", {}, use)
