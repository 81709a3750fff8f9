"""int8's centred rows round at the size of each row's middle; the bound that verify measures knows it."""

import numpy as np
import pytest
import torch
from torch import nn

from txexport.formats.int8 import Int8Centred
from txexport.verification.bounds import ROUNDINGS, largest_error
from txexport.verification.references.precision import in_float64, perturbed

WIDTH = 96


class Numpy:
    """The operators of `Int8Centred.product` in NumPy's float32, without rounding to integers."""

    def __getattr__(self, name):
        known = {
            "ReduceMax": lambda x, axes, keepdims, name: x.max(-1, keepdims=True),
            "ReduceMin": lambda x, axes, keepdims, name: x.min(-1, keepdims=True),
            "Constant": lambda **value: next(iter(value.values())),
            "Slice": lambda x, *_, name: x,
            "Add": lambda a, b: a + b,
            "Sub": lambda a, b, name: a - b,
            "Mul": lambda a, b, name="": np.float32(a) * np.float32(b),
            "Div": lambda a, b, name: a / b,
            "Max": lambda a, b: np.maximum(a, np.float32(b)),
            "QuantizeLinear": lambda x, *_, name: x,
            "DequantizeLinear": lambda x, scale, *_, name, axis=None: x if axis is None else x * scale,
            "MatMul": lambda a, b: a @ b,
        }
        return known[name]


@pytest.mark.parametrize("outlier", [0.0, 300.0])
def test_what_centring_rounds_is_in_the_bound(outlier):
    """Of rows with one large number, a plain product's rounding is too small a bound, and this one is not."""
    random = np.random.default_rng(0)
    x = random.standard_normal((64, WIDTH)).astype(np.float32)
    x[:, 3] += outlier
    integers = random.integers(-127, 128, (WIDTH, WIDTH)).astype(np.float32)
    integers[3] = 0  # the outlier itself counts for nothing, as where a norm's scale is small
    scale = (random.random(WIDTH) / 127).astype(np.float32)
    matrix = {"": integers, "scale": scale, "sums": integers.sum(0).astype(np.float32) * scale}
    found = Int8Centred().product(Numpy(), x, matrix, None)
    linear = nn.Linear(WIDTH, WIDTH, bias=False)
    linear.weight.data = torch.from_numpy(np.ascontiguousarray((integers * scale).T))
    with torch.inference_mode():
        with in_float64(linear):
            exact = linear(torch.from_numpy(x).double()).numpy()
        off = {}
        for centred in (False, True):
            with perturbed(linear, 0, centred):
                off[centred] = largest_error(linear(torch.from_numpy(x).double()).numpy(), exact)
    error = largest_error(found, exact)
    assert error < ROUNDINGS * off[True]
    if outlier:
        assert error > ROUNDINGS * off[False]
    else:  # no middle to speak of: as tight as ever
        assert off[True] < 3 * off[False]
