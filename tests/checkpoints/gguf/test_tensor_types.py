"""Dequantised numbers are those of ggml's rules, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_gguf import LAYOUTS, noise, q4_0, q8_0

from txexport.checkpoints.gguf import tensor_types
from txexport.checkpoints.gguf.tensor_types import IQ4_LEVELS, TYPES

PACKED = [kind for kind, one in TYPES.items() if one.unpack is not None]
WITH_MINIMA = {"Q4_1", "Q5_1", "Q4_K", "Q5_K", "Q2_K"}
BLOCK = {"Q6_K": 16, "Q3_K": 16, "Q2_K": 16, "Q8_K": 256}  # of the others 32
BITS = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q2_K": 2, "Q3_K": 3, "Q4_K": 4, "Q5_K": 5}
BITS |= {"Q6_K": 6, "Q8_K": 8, "IQ4_NL": 8, "IQ4_XS": 8}


def random_rows(kind: int, rows: int = 5, blocks: int = 3) -> np.ndarray:
    """Rows (out, bytes) of random blocks, with scales of any finite size."""
    one, rng = TYPES[kind], np.random.default_rng(kind)
    data = rng.integers(0, 256, (rows * blocks, one.nbytes), np.uint8)
    for place in LAYOUTS.get(kind, (0, 0, ()))[2]:
        scales = rng.normal(size=len(data)).astype("<f2")
        data[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    if one.name == "Q8_K":
        data[:, :4] = rng.normal(size=len(data)).astype("<f4").view(np.uint8).reshape(-1, 4)
    return data.reshape(rows, -1)


def half(block: bytes, place: int) -> float:
    return float(np.frombuffer(block, "<f2", 1, place)[0])


def pair_of_six_bits(block: bytes, j: int) -> tuple[int, int]:
    """ggml-quants.c, `get_scale_min_k4`."""
    q = block[4:16]
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    return (q[j + 4] & 15) | (q[j - 4] >> 6 << 4), (q[j + 4] >> 4) | (q[j] >> 6 << 4)


def plain(name: str, b: bytes) -> list[float]:
    """A block as the loops of ggml-quants.c's `dequantize_row_*` read it, one number at a time."""
    y = [0.0] * TYPES[next(k for k, t in TYPES.items() if t.name == name)].elements
    if name in ("Q4_0", "Q4_1", "IQ4_NL"):
        for j in range(16):
            start = 4 if name == "Q4_1" else 2
            for place, q in ((j, b[start + j] & 15), (j + 16, b[start + j] >> 4)):
                if name == "IQ4_NL":
                    y[place] = half(b, 0) * int(IQ4_LEVELS[q])
                else:
                    y[place] = half(b, 0) * q + half(b, 2) if name == "Q4_1" else half(b, 0) * (q - 8)
    elif name in ("Q5_0", "Q5_1"):
        start = 2 if name == "Q5_0" else 4
        bits = int.from_bytes(b[start : start + 4], "little")
        for j in range(32):
            byte = b[start + 4 + j % 16]
            q = (byte & 15 if j < 16 else byte >> 4) | (bits >> j & 1) << 4
            y[j] = half(b, 0) * (q - 16) if name == "Q5_0" else half(b, 0) * q + half(b, 2)
    elif name == "Q8_0":
        y = [half(b, 0) * int(np.int8(np.uint8(q))) for q in b[2:]]
    elif name == "Q8_K":
        y = [float(np.frombuffer(b, "<f4", 1)[0]) * int(np.int8(np.uint8(q))) for q in b[4:260]]
    elif name in ("Q4_K", "Q5_K"):
        for i in range(256):
            group, lane = divmod(i, 32)
            byte = b[(16 if name == "Q4_K" else 48) + group // 2 * 32 + lane]
            q = byte >> 4 if group % 2 else byte & 15
            if name == "Q5_K":
                q |= (b[16 + lane] >> group & 1) << 4
            scale, minimum = pair_of_six_bits(b, group)
            y[i] = np.float32(half(b, 0) * scale * q) - np.float32(half(b, 2) * minimum)
    elif name == "Q6_K":
        for i in range(256):
            part, rest = divmod(i, 128)
            quarter, lane = divmod(rest, 32)
            low = b[64 * part + 32 * (quarter % 2) + lane]
            low = low >> 4 if quarter > 1 else low & 15
            high = b[128 + 32 * part + lane] >> 2 * quarter & 3
            scale = int(np.int8(np.uint8(b[192 + i // 16])))
            y[i] = half(b, 208) * scale * ((low | high << 4) - 32)
    elif name == "Q3_K":
        for i in range(256):
            part, rest = divmod(i, 128)
            low = b[32 + 32 * part + rest % 32] >> 2 * (rest // 32) & 3
            kept = b[i % 32] >> (i // 32) & 1
            j = i // 16
            scale = b[96 + j % 8] >> (0 if j < 8 else 4) & 15
            scale |= (b[104 + j % 4] >> 2 * (j // 4) & 3) << 4
            y[i] = half(b, 108) * (scale - 32) * (low - (0 if kept else 4))
    elif name == "Q2_K":
        for i in range(256):
            part, rest = divmod(i, 128)
            q = b[16 + 32 * part + rest % 32] >> 2 * (rest // 32) & 3
            scale = b[i // 16]
            y[i] = np.float32(half(b, 80) * (scale & 15) * q) - np.float32(half(b, 82) * (scale >> 4))
    elif name == "IQ4_XS":
        for i in range(256):
            group, lane = divmod(i, 32)
            byte = b[8 + 16 * group + lane % 16]
            scale = b[4 + group // 2] >> 4 * (group % 2) & 15
            scale |= (int.from_bytes(b[2:4], "little") >> 2 * group & 3) << 4
            y[i] = half(b, 0) * (scale - 32) * int(IQ4_LEVELS[byte >> 4 if lane > 15 else byte & 15])
    return y


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: TYPES[kind].name)
def test_numbers_are_those_of_ggmls_loops(kind):
    one, rows = TYPES[kind], random_rows(kind)
    blocks = [block.tobytes() for block in rows.reshape(-1, one.nbytes)]
    expected = np.array([plain(one.name, block) for block in blocks], np.float32)
    assert np.array_equal(one.numbers(rows).reshape(expected.shape), expected)


def exchanged(data: np.ndarray, width: int) -> np.ndarray:
    """The halves of bytes, the upper first."""
    return tensor_types._fields(data, width, 4, 0) & 15


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"])
def test_exchanged_halves_of_bytes_are_other_numbers(name, monkeypatch):
    kind = next(kind for kind, one in TYPES.items() if one.name == name)
    rows = random_rows(kind)
    right = TYPES[kind].numbers(rows)
    monkeypatch.setattr(tensor_types, "_nibbles", exchanged)
    assert np.mean(TYPES[kind].numbers(rows) != right) > 0.5


@pytest.mark.parametrize("name", sorted(WITH_MINIMA))
def test_without_the_minimum_they_are_other_numbers(name):
    kind = next(kind for kind, one in TYPES.items() if one.name == name)
    blocks = TYPES[kind].blocks(random_rows(kind))
    assert blocks is not None
    assert np.mean(replace(blocks, minima=None).numbers() != blocks.numbers()) > 0.9


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: TYPES[kind].name)
def test_numbers_are_those_of_the_gguf_package(kind):
    gguf = pytest.importorskip("gguf", reason="the gguf package is not installed")
    rows = random_rows(kind)
    try:
        expected = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(kind))
    except NotImplementedError:
        pytest.skip("the gguf package does not read this type")
    assert np.array_equal(TYPES[kind].numbers(rows), expected)


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: TYPES[kind].name)
def test_numbers_are_those_of_transformers(kind):
    dequant = pytest.importorskip("transformers.integrations.gguf.dequant")
    if kind not in dequant.GGML_BLOCK:
        pytest.skip("transformers does not read this type without the gguf package")
    rows = random_rows(kind)
    expected = dequant.dequantize(torch.from_numpy(rows.reshape(-1)), kind).numpy()
    assert np.array_equal(TYPES[kind].numbers(rows).reshape(-1), expected)


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: TYPES[kind].name)
def test_blocks_are_integers_of_their_bits_and_scales_of_their_blocks(kind):
    """Integers are within their bits, and blocks contain all that the numbers need."""
    one, rows = TYPES[kind], random_rows(kind)
    blocks = one.blocks(rows)
    assert blocks is not None
    inputs = 3 * one.elements
    assert blocks.shape == (5, inputs)
    assert (blocks.bits, blocks.block) == (BITS[one.name], BLOCK.get(one.name, 32))
    assert (blocks.minima is not None) == (one.name in WITH_MINIMA)
    low, high = (0, 2**blocks.bits) if blocks.integers.dtype == np.uint8 else (-(2 ** (blocks.bits - 1)),) * 2
    high = high if low == 0 else -low
    assert low <= blocks.integers.min()
    assert blocks.integers.max() < high
    assert (blocks.integers.dtype == np.uint8) == (one.name in WITH_MINIMA)
    assert blocks.scales.dtype == np.float32
    assert blocks.scales.shape == (5, inputs // blocks.block)


@pytest.mark.parametrize(
    ("name", "kind", "dtype"), [("F32", 0, "<f4"), ("F16", 1, "<f2"), ("F64", 28, "<f8")]
)
def test_floats_are_read_as_they_are(name, kind, dtype):
    numbers = np.random.default_rng(0).normal(size=(3, 8)).astype(dtype)
    read = TYPES[kind].numbers(numbers.view(np.uint8).reshape(3, -1))
    assert TYPES[kind].name == name
    assert np.array_equal(read, numbers.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_a_float32():
    numbers = torch.randn(3, 8, dtype=torch.bfloat16)
    rows = numbers.view(torch.uint8).numpy().reshape(3, -1)
    assert np.array_equal(TYPES[30].numbers(rows), numbers.float().numpy())


@pytest.mark.parametrize(("kind", "pack", "steps"), [(8, q8_0, 127), (2, q4_0, 7)])
def test_a_packed_matrix_is_near_what_was_packed(kind, pack, steps):
    """Rows and halves in the wrong order would give large errors, even if blocks were read correctly."""
    numbers = np.random.default_rng(1).normal(size=(6, 96)).astype(np.float32)
    rows = np.frombuffer(pack(numbers), np.uint8).reshape(6, -1)
    assert np.abs(TYPES[kind].numbers(rows) - numbers).max() < 0.51 * np.abs(numbers).max() / steps


def test_scales_that_are_not_finite_warn_of_nothing(recwarn):
    """The checkpoint is refused by name later, in one line."""
    for kind in PACKED:
        rows = np.full((1, TYPES[kind].nbytes), 0xFF, np.uint8)
        assert not np.isfinite(TYPES[kind].numbers(rows)).all()
    assert not recwarn.list


def test_noise_makes_weights_of_an_ordinary_size():
    for kind, (elements, nbytes, _) in LAYOUTS.items():
        data = noise(kind, (4, elements), 0)
        numbers = TYPES[kind].numbers(np.frombuffer(data, np.uint8).reshape(4, nbytes))
        assert 0.01 < numbers.std() < 0.5, TYPES[kind].name
