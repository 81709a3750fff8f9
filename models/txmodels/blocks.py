"""Sequences cut into M blocks of C tokens, so that a query is not compared with every key."""

import torch
import torch.nn.functional as F
from torch import Tensor


def blocks(x: Tensor, size: int) -> Tensor:
    """x (B,S,W) -> (B,M,C,W), C = size; zeros fill up the last block."""
    padded = F.pad(x, (0, 0, 0, -x.shape[1] % size))  # (B, M*C, W)
    y = padded.unflatten(1, (-1, size))  # (B, M, C, W)
    return y


def rows(x: Tensor) -> Tensor:
    """x (B,M,C,W) -> (B*M,C,W): every block is a row of its own."""
    y = x.flatten(0, 1)
    return y


def columns(x: Tensor) -> Tensor:
    """x (B,M,C,W) -> (B*C,M,W): tokens at the same index of their blocks."""
    y = rows(x.transpose(1, 2))
    return y


def no_block(x: Tensor) -> Tensor:
    """x (B,M,C,W) -> zeros (B,1,C,W)."""
    y = torch.zeros_like(x[:, :1])
    return y


def preceded(x: Tensor) -> Tensor:
    """x (B,M,C,W) -> (B*M,2C,W): every block after the one before it, or after zeros."""
    before = torch.cat([no_block(x), x[:, :-1]], dim=1)  # (B, M, C, W)
    y = rows(torch.cat([before, x], dim=2))
    return y


def surrounded(x: Tensor) -> Tensor:
    """x (B,M,C,W) -> (B*M,3C,W): every block between its neighbours, or zeros."""
    before = torch.cat([no_block(x), x[:, :-1]], dim=1)  # (B, M, C, W)
    after = torch.cat([x[:, 1:], no_block(x)], dim=1)
    y = rows(torch.cat([before, x, after], dim=2))
    return y


def joined(x: Tensor, like: Tensor) -> Tensor:
    """x (B*M,C,W), like (B,S,...) -> (B,S,W): rows of blocks as the sequences that they were cut from."""
    padded = x.reshape(like.shape[0], -1, x.shape[2])  # (B, M*C, W)
    y = padded[:, : like.shape[1]]
    return y


def distances(q: Tensor, first: int, last: int) -> Tensor:
    """Distances (C,T) of the keys first..last-1 after the queries 0..C-1 of q (R,N,C,H)."""
    keys = torch.arange(first, last, device=q.device)  # (T)
    queries = torch.arange(q.shape[2], device=q.device)  # (C)
    y = keys - queries[:, None]
    return y
