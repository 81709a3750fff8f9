"""Fourier transforms as products: the original's transform, at any length and width, in both halves."""

from functools import partial

import numpy as np
import onnx_ir as ir
import pytest
import torch
import txgraphs.fourier_mixing
import txmodels.fourier_mixing
from helpers.twins import check, integers, random

from txexport.errors import SpecError
from txexport.inspection import flops
from txexport.spec import (
    Activation,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    FourierMixingSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

LENGTHS = (1, 2, 5, 8, 31, 257)
WIDTHS = (1, 2, 3, 24, 45)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("length", LENGTHS)
def test_products_are_the_transform(length, width):
    """Within 1e-6 of the largest number, which float32 promises."""
    spec, tokens, twin = (
        FourierMixingSpec(width),
        integers(31, 2, length),
        txmodels.fourier_mixing.fourier_tables,
    )
    make = txgraphs.fourier_mixing.fourier_tables(spec, ir.DataType.FLOAT)
    tables = check(lambda ids: tuple(one.float() for one in twin(spec, ids)), make, tokens)
    x = random(2, length, width) / length**0.5  # which keeps sums near 1
    module = txmodels.fourier_mixing.FourierMixing(spec)
    component = partial(txgraphs.fourier_mixing.fourier_mixing, spec)
    [y] = check(module, component, x, *map(torch.from_numpy, tables))
    expected = torch.fft.fftn(x.double(), dim=(1, 2)).real.numpy()
    assert np.abs(y - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("length", [4, 23])
def test_operations_are_those_of_the_products(length):
    spec, width, frequencies = FourierMixingSpec(24), 24, 13
    block = BlockSpec(spec, FeedForwardSpec(24, 30, Activation.GELU), NormSpec(24, 1e-5), NormPlacement.POST)
    stack = TextStackSpec(EmbeddingSpec(31, 24, PositionSpec(PositionKind.LEARNED, 40)), (block,), 1)
    work = flops.prefill(EncoderSpec(stack), length)["encoder"]
    assert work.attention == 2 * 2 * length**2 * frequencies
    assert work.matrices == 2 * length * 2 * 24 * 30 + 2 * 2 * length * width * frequencies
    assert work.total == sum(flops.by_part(EncoderSpec(stack), "encoder", length).values())


def test_a_width_of_nothing_is_named():
    with pytest.raises(SpecError, match="FourierMixingSpec: hidden_size is 0"):
        FourierMixingSpec(0)
