"""Layers with states: ragged rows, and their comparison with the layers of transformers."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from helpers.twins import check, random
from txexport.spec.attention_parameters import attention


def new_tokens(counts: list[int], length: int, side: str = "right") -> tuple[torch.Tensor, torch.Tensor]:
    """real (B,S,1) and ends (B) of rows of `counts` tokens, padded on a side."""
    positions, sizes = torch.arange(length), torch.tensor(counts)
    mask = positions < sizes[:, None] if side == "right" else positions >= length - sizes[:, None]
    ends = sizes if side == "right" else torch.where(sizes > 0, length, 0)
    return mask[:, :, None].float(), ends


def check_layer(
    spec: Any, module: torch.nn.Module, function: Callable, length: int, picks: list[list[int]] | None
) -> None:
    """Compare the twins of a layer on three rows of up to `length` tokens, padded on the right.

    The last row has none, so that its states stay. With `picks` (B,L), only these tokens ask.
    """
    assert {name: tuple(value.shape) for name, value in module.named_parameters()} == attention(spec)
    x, counts = random(3, length, spec.hidden_size), [length, max(1, length - 2), 0]
    states = [random(3, *shape) for shape in spec.states.values()]
    inputs = x, *states, *new_tokens(counts, length)
    indices = None if picks is None else torch.tensor(picks) % length
    y, *after = check(module, function, *inputs, *(() if indices is None else (indices,)))
    assert y.shape == (3, length if indices is None else 2, spec.hidden_size)
    for state, before in zip(after, states, strict=True):
        np.testing.assert_array_equal(state[2], before[2].numpy())
    if indices is not None:
        with torch.no_grad():
            every, *_ = module(*inputs)
        np.testing.assert_allclose(
            y, every.gather(1, indices[..., None].expand(-1, -1, y.shape[2])), atol=1e-5
        )


def check_left_padding(
    module: torch.nn.Module, layer: torch.nn.Module, shapes: Iterable[tuple[int, ...]], x: torch.Tensor
) -> None:
    """Compare three rows of x (B,S,W), padded on the left, with each alone in the layer of transformers."""
    counts = [x.shape[1], 5, 1]
    states = [torch.zeros(len(x), *shape) for shape in shapes]
    y, *states = module(x, *states, *new_tokens(counts, x.shape[1], "left"))
    for row, count in enumerate(counts):
        check_row(layer, x[row, -count:], y[row, -count:], [state[row] for state in states])


def check_row(layer: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, states: list[torch.Tensor]) -> None:
    """Compare y (S,W) and the states of a row with those that transformers computes from x (S,W)."""
    cache = DynamicCache(config=layer.config)
    conv, matrix = states
    torch.testing.assert_close(y, layer(x[None], cache=cache)[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(matrix, cache.layers[0].recurrent_states[0][0], rtol=0, atol=1e-5)
    torch.testing.assert_close(conv, cache.layers[0].conv_states[0][0], rtol=0, atol=1e-5)


def check_pieces(
    module: torch.nn.Module,
    layer: torch.nn.Module,
    shapes: Iterable[tuple[int, ...]],
    x: torch.Tensor,
    lengths: list[int],
    sizes: list[int],
) -> None:
    """Compare rows of x (B,S,W), padded on the right and read in pieces, with each alone in one pass."""
    assert sum(sizes) >= max(lengths)
    batch, longest, width = x.shape
    ends, taken = torch.tensor(lengths), torch.zeros(batch, dtype=torch.int64)
    states = [torch.zeros(batch, *shape) for shape in shapes]
    rows: list[list[torch.Tensor]] = [[] for _ in range(batch)]
    for size in sizes:
        counts = (ends - taken).clamp(0, size)
        tokens = (taken[:, None] + torch.arange(size)).clamp(max=longest - 1)
        piece = x.gather(1, tokens[:, :, None].expand(-1, -1, width))
        y, *states = module(piece, *states, *new_tokens(counts.tolist(), size))
        for row, count in enumerate(counts.tolist()):
            rows[row].append(y[row, :count])
        taken += counts
    for row, length in enumerate(lengths):
        check_row(layer, x[row, :length], torch.cat(rows[row]), [state[row] for state in states])
