"""One vector of a sequence."""

import torch
from torch import Tensor

from txexport.spec import Pick


def pick(
    kind: Pick, token: int | None, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None
) -> Tensor:
    """One vector of each sequence: x (B,S,W), input_ids and attention_mask (B,S) -> picked (B,W).

    `token` is the id of padding for LAST, of what ends a text for LAST_EOS and FIRST_EOS; only the kinds that
    read ids or the mask need them. FIRST_AND_MEAN gives (B,2W), of which `token` are left out of the mean, as
    of GLOBAL_AVERAGE's.
    """
    if kind == Pick.FIRST:
        return x[:, 0]
    if kind == Pick.FIRST_TWO:
        return (x[:, 0] + x[:, 1]) * 0.5
    if kind == Pick.FINAL:
        return x[:, -1]
    if kind == Pick.FIRST_AND_MEAN:
        return torch.cat([x[:, 0], x[:, 1 + (token or 0) :].mean(dim=1)], dim=1)
    if kind == Pick.GLOBAL_AVERAGE:
        return x[:, token or 0 :].mean(dim=1)
    if kind in (Pick.MEAN, Pick.MEAN_AFTER_DENSE):
        assert attention_mask is not None
        weights = attention_mask.to(x.dtype)[:, :, None]  # (B, S, 1)
        return (x * weights).sum(dim=1) / weights.sum(dim=1)
    if kind in (Pick.FIRST_UNMASKED, Pick.LAST_UNMASKED):
        assert attention_mask is not None
        order = torch.arange(x.shape[1], device=x.device)
        score = attention_mask * (order + 1 if kind == Pick.LAST_UNMASKED else 1)  # (B, S)
        return x[torch.arange(x.shape[0], device=x.device), score.argmax(dim=1)]
    assert input_ids is not None
    if kind in (Pick.LAST, Pick.LAST_EOS):
        positions = torch.arange(x.shape[1], device=x.device).expand_as(input_ids)  # (B, S)
        if token is not None:
            real = input_ids.ne(token) if kind == Pick.LAST else input_ids.eq(token)  # (B, S)
            positions = positions * real
        position = positions.max(dim=1).values  # (B)
    elif kind == Pick.FIRST_EOS:
        assert token is not None
        position = input_ids.eq(token).int().argmax(dim=1)
    else:
        position = input_ids.argmax(dim=1)
    return x[torch.arange(x.shape[0], device=x.device), position]
