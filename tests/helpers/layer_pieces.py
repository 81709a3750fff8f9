"""Layers with states: ragged rows, and their comparison with the layers of transformers."""

from collections.abc import Iterable

import torch
from transformers import DynamicCache


def new_tokens(counts: list[int], length: int, side: str = "right") -> tuple[torch.Tensor, torch.Tensor]:
    """real (B,S,1) and ends (B) of rows of `counts` tokens, padded on a side."""
    positions, sizes = torch.arange(length), torch.tensor(counts)
    mask = positions < sizes[:, None] if side == "right" else positions >= length - sizes[:, None]
    ends = sizes if side == "right" else torch.where(sizes > 0, length, 0)
    return mask[:, :, None].float(), ends


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
