"""The packers of all formats.

A packer takes a random source and a matrix's shape (out,in), and returns the tensors that the format stores,
by their suffixes after the module's name, and the float32 values (out,in) that they encode.
"""

import json
from collections.abc import Callable

import numpy as np
import torch

Random = np.random.Generator
Packed = tuple[dict[str, torch.Tensor], np.ndarray]
Packer = Callable[[Random, int, int], Packed]


def int32(words: list[list[int]]) -> torch.Tensor:
    """Words of 32 bits from unsigned values."""
    return torch.from_numpy(np.array(words, np.uint32).view(np.int32))


def half(numbers: np.ndarray) -> np.ndarray:
    """Rounded to float16, as float32."""
    return numbers.astype(np.float16).astype(np.float32)


def brain(numbers: np.ndarray) -> np.ndarray:
    """Truncated to bfloat16, as float32."""
    return (numbers.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def random_scales(random: Random, *shape: int) -> np.ndarray:
    """Scales that float16 and bfloat16 both represent, as float32, for plausible weights of 4 bits."""
    return half(brain(random.uniform(0.005, 0.03, shape)))


def words_along(integers: list[int], bits: int) -> list[int]:
    """Integers packed into 32-bit words as GPTQ does: of 3 bits, 32 in three words, two of them split."""
    words: list[int] = []
    if bits == 3:
        for start in range(0, len(integers), 32):
            v = integers[start : start + 32]
            a = sum(v[i] << 3 * i for i in range(10)) | (v[10] & 3) << 30
            b = v[10] >> 2 | sum(v[11 + i] << 3 * i + 1 for i in range(10)) | (v[21] & 1) << 31
            c = v[21] >> 1 | sum(v[22 + i] << 3 * i + 2 for i in range(10))
            words += [a, b, c]
        return words
    each = 32 // bits
    for start in range(0, len(integers), each):
        word = 0
        for i, integer in enumerate(integers[start : start + each]):
            word |= integer << bits * i
        words.append(word)
    return words


def columns_in_words(matrix: np.ndarray, bits: int) -> torch.Tensor:
    """matrix (rows,n) -> words (rows*bits/32, n), packed down each column."""
    columns = [words_along([int(x) for x in matrix[:, n]], bits) for n in range(matrix.shape[1])]
    return int32([list(row) for row in zip(*columns, strict=True)])


def rows_in_words(matrix: np.ndarray, bits: int) -> torch.Tensor:
    """matrix (rows,n) -> words (rows, n*bits/32), packed along each row."""
    return int32([words_along([int(x) for x in row], bits) for row in matrix])


def product(integer: int, zero: int, scale: np.float32) -> np.float32:
    """The dequantised value of an integer, in float32."""
    return np.float32(int(integer) - int(zero)) * np.float32(scale)


def gptq(
    bits: int = 4,
    group: int = 32,
    symmetric: bool = True,
    stored_less: int = 1,
    act_order: bool = False,
    zero: int | None = None,
    g_idx: bool = True,
    bias: bool = False,
) -> Packer:
    """GPTQ; `stored_less` is 1 in v1, whose zero points are stored minus 1; `zero` is one for every block."""

    def pack(random: Random, outputs: int, inputs: int) -> Packed:
        size = group if group > 0 else inputs
        groups = -(-inputs // size)
        q = random.integers(0, 1 << bits, (inputs, outputs))
        z = np.full((groups, outputs), 1 << bits - 1)
        if not symmetric:
            z = random.integers(1, 1 << bits, (groups, outputs)) if zero is None else np.full_like(z, zero)
        scales = random_scales(random, groups, outputs)
        index = np.array([k // size for k in range(inputs)])
        if act_order:
            index = random.permutation(index)
        numbers = np.empty((outputs, inputs), np.float32)
        for n in range(outputs):
            for k in range(inputs):
                numbers[n, k] = product(q[k, n], z[index[k], n], scales[index[k], n])
        tensors = {
            "qweight": columns_in_words(q, bits),
            "qzeros": rows_in_words((z - stored_less) % (1 << bits), bits),
            "scales": torch.from_numpy(scales).half(),
        }
        if g_idx:
            tensors["g_idx"] = torch.from_numpy(index.astype(np.int32))
        if bias:
            tensors["bias"] = torch.zeros(outputs, dtype=torch.float16)
        return tensors, numbers

    return pack


def awq(group: int = 32) -> Packer:
    """AWQ's "gemm": eight outputs in a word, in the order 0 2 4 6 1 3 5 7 from its lowest bits."""

    def interleaved(matrix: np.ndarray) -> torch.Tensor:
        words = []
        for row in matrix:
            words.append([])
            for start in range(0, len(row), 8):
                word = 0
                for place, output in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
                    word |= int(row[start + output]) << 4 * place
                words[-1].append(word)
        return int32(words)

    def pack(random: Random, outputs: int, inputs: int) -> Packed:
        size = group if group > 0 else inputs
        q = random.integers(0, 16, (inputs, outputs))
        z = random.integers(0, 16, (inputs // size, outputs))
        scales = random_scales(random, inputs // size, outputs)
        numbers = np.empty((outputs, inputs), np.float32)
        for n in range(outputs):
            for k in range(inputs):
                numbers[n, k] = product(q[k, n], z[k // size, n], scales[k // size, n])
        tensors = {"qweight": interleaved(q), "qzeros": interleaved(z)}
        return tensors | {"scales": torch.from_numpy(scales).half()}, numbers

    return pack


def pack_quantized(bits: int = 4, group: int = 32, symmetric: bool = True, act_order: bool = False) -> Packer:
    """compressed-tensors' "pack-quantized"; with `group` 0 there is one scale per output."""

    def pack(random: Random, outputs: int, inputs: int) -> Packed:
        size, half_range = group or inputs, 1 << bits - 1
        groups = -(-inputs // size)
        q = random.integers(-half_range, half_range, (outputs, inputs))
        z = random.integers(-half_range, half_range, (outputs, groups)) * (not symmetric)
        scales = random_scales(random, outputs, groups)
        index = np.array([k // size for k in range(inputs)])
        if act_order:
            index = random.permutation(index)
        numbers = np.empty((outputs, inputs), np.float32)
        for n in range(outputs):
            for k in range(inputs):
                numbers[n, k] = product(q[n, k], z[n, index[k]], scales[n, index[k]])
        tensors = {
            "weight_packed": rows_in_words(q + half_range, bits),
            "weight_scale": torch.from_numpy(scales).bfloat16(),
            "weight_shape": torch.tensor([outputs, inputs]),
        }
        if not symmetric:
            tensors["weight_zero_point"] = columns_in_words(z + half_range, bits)
        if act_order:
            tensors["weight_g_idx"] = torch.from_numpy(index.astype(np.int32))
        return tensors, numbers

    return pack


def int_quantized(random: Random, outputs: int, inputs: int) -> Packed:
    """compressed-tensors' "int-quantized": int8, a scale per output."""
    q = random.integers(-127, 128, (outputs, inputs))
    scales = brain(random.uniform(0.0003, 0.002, (outputs, 1)))
    numbers = np.empty((outputs, inputs), np.float32)
    for n in range(outputs):
        for k in range(inputs):
            numbers[n, k] = product(q[n, k], 0, scales[n, 0])
    weight, scale = torch.from_numpy(q.astype(np.int8)), torch.from_numpy(scales).bfloat16()
    return {"weight": weight, "weight_scale": scale}, numbers


def e4m3(code: int) -> float:
    """The value of an 8-bit code: sign, 4 bits of exponent with bias 7, 3 of fraction."""
    exponent, fraction = code >> 3 & 15, code & 7
    size = (1 + fraction / 8) * 2.0 ** (exponent - 7) if exponent else fraction / 8 * 2.0**-6
    return -size if code & 128 else size


def float8(rows: int = 0, columns: int = 0, scale: str = "weight_scale_inv", shape: tuple = ()) -> Packer:
    """float8 with a scale for each rectangle, or else for each output, or of `shape` ()."""

    def pack(random: Random, outputs: int, inputs: int) -> Packed:
        codes = random.integers(0, 255, (outputs, inputs))
        codes[codes == 127] = 0  # NaN
        high, wide = rows or (1 if shape else outputs), columns or inputs
        scales = random.uniform(0.0001, 0.0005, (-(-outputs // high), -(-inputs // wide))).astype(np.float32)
        numbers = np.empty((outputs, inputs), np.float32)
        for n in range(outputs):
            for k in range(inputs):
                numbers[n, k] = np.float32(e4m3(int(codes[n, k]))) * scales[n // high, k // wide]
        stored = torch.from_numpy(scales)
        weight = torch.from_numpy(codes.astype(np.uint8)).view(torch.float8_e4m3fn)
        return {"weight": weight, scale: stored if rows or shape else stored.reshape(())}, numbers

    return pack


def llm_int8(random: Random, outputs: int, inputs: int) -> Packed:
    """bitsandbytes' 8 bits: int8, and the absolute maximum of each output."""
    q = random.integers(-127, 128, (outputs, inputs))
    largest = random.uniform(0.05, 0.3, outputs).astype(np.float32)
    numbers = np.empty((outputs, inputs), np.float32)
    for n in range(outputs):
        for k in range(inputs):
            numbers[n, k] = product(q[n, k], 0, largest[n] / np.float32(127))
    tensors = {"weight": torch.from_numpy(q.astype(np.int8)), "SCB": torch.from_numpy(largest)}
    return tensors | {"weight_format": torch.tensor(0, dtype=torch.uint8)}, numbers


NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
)
POSITIVE = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
FP4 = (*POSITIVE, *(-level for level in POSITIVE))


def four_bits(kind: str = "nf4", block: int = 64, nested: bool = False) -> Packer:
    """bitsandbytes' 4 bits: codes in pairs, high nibble first, over the rows one after another."""

    def pack(random: Random, outputs: int, inputs: int) -> Packed:
        levels = np.array({"nf4": NF4, "fp4": FP4}[kind], np.float32)
        codes = [int(code) for code in random.integers(0, 16, outputs * inputs)]
        count = -(-len(codes) // block)
        state = {"quant_type": kind, "blocksize": block, "dtype": "float32", "shape": [outputs, inputs]}
        largest = random.uniform(0.05, 0.3, count).astype(np.float32)
        tensors = {"weight.absmax": torch.from_numpy(largest)}
        if nested:
            table = np.sort(random.uniform(-1, 1, 256)).astype(np.float32)
            outer = random.uniform(0.01, 0.05, -(-count // 256)).astype(np.float32)
            coded, offset = random.integers(0, 256, count), np.float32(0.15)
            largest = np.array([table[c] * outer[i // 256] + offset for i, c in enumerate(coded)], np.float32)
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}
            tensors = {
                "weight.absmax": torch.from_numpy(coded.astype(np.uint8)),
                "weight.nested_absmax": torch.from_numpy(outer),
                "weight.nested_quant_map": torch.from_numpy(table),
            }
        numbers = np.empty(len(codes), np.float32)
        for i, code in enumerate(codes):
            numbers[i] = levels[code] * largest[i // block]
        even = [*codes, 0] if len(codes) % 2 else codes
        octets = [[high << 4 | low] for high, low in zip(even[::2], even[1::2], strict=True)]
        described = list(json.dumps(state).encode())
        tensors |= {
            "weight": torch.tensor(octets, dtype=torch.uint8),
            "weight.quant_map": torch.from_numpy(levels),
            f"weight.quant_state.bitsandbytes__{kind}": torch.tensor(described, dtype=torch.uint8),
        }
        return tensors, numbers.reshape(outputs, inputs)

    return pack


def torchao(random: Random, outputs: int, inputs: int) -> Packed:
    """torchao's int8 weights."""
    tensors, numbers = int_quantized(random, outputs, inputs)
    return {
        "_weight_qdata": tensors["weight"],
        "_weight_scale": tensors["weight_scale"].float(),
        "_weight_zero_point": torch.zeros(outputs, 1, dtype=torch.int8),
    }, numbers


def mxfp4(random: Random, experts: int, outputs: int, inputs: int) -> Packed:
    """MXFP4 of stacked experts: an exponent with bias 127 per 32 inputs, codes in pairs, low nibble first."""
    levels = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    levels += [-level for level in levels]
    codes = random.integers(0, 16, (experts, outputs, inputs))
    powers = random.integers(119, 124, (experts, outputs, inputs // 32))
    numbers = np.empty(codes.shape, np.float32)
    for e, n, k in np.ndindex(*codes.shape):
        numbers[e, n, k] = levels[codes[e, n, k]] * 2.0 ** (int(powers[e, n, k // 32]) - 127)
    octets = (codes[..., 1::2] << 4 | codes[..., ::2]).astype(np.uint8)
    blocks = octets.reshape(experts, outputs, inputs // 32, 16)
    return {"blocks": torch.from_numpy(blocks), "scales": torch.from_numpy(powers.astype(np.uint8))}, numbers
