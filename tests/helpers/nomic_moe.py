"""Nomic BERT MoE in plain PyTorch (Nussbaum and Duderstadt 2025, 3).

Names and shapes are those of its files. text-embeddings-inference and vLLM agree that the selected experts'
weights are not renormalised, and that one bias follows their sum.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional


def turned(x: Tensor, base: float) -> Tensor:
    """x (B,N,S,H) with RoPE on rotated halves (Su et al. 2021, 3.4.2)."""
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequencies  # (S, H / 2)
    cos, sin = angles.cos().float(), angles.sin().float()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def mixture(tensors: Mapping[str, Tensor], config: Mapping, name: str, x: Tensor) -> Tensor:
    """The output of a layer's experts for x (B,S,W)."""
    count, inner = config["num_experts"], config["n_inner"]
    w1, w2 = (tensors[f"{name}.experts.mlp.{part}"].view(count, inner, -1) for part in ("w1", "w2"))
    shares = torch.softmax(x @ tensors[f"{name}.router.layer.weight"].T, dim=-1)  # (B, S, experts)
    least = shares.topk(config["moe_top_k"], dim=-1).values[..., -1:]
    kept = torch.where(shares >= least, shares, 0.0)
    every = torch.stack(
        [functional.gelu(x @ w1[e].T) @ w2[e] for e in range(count)], dim=-1
    )  # (B, S, W, experts)
    return (every * kept[..., None, :]).sum(dim=-1) + tensors[f"{name}.experts.bias"]


def outputs(
    tensors: Mapping[str, Tensor], config: Mapping, input_ids: Tensor, attention_mask: Tensor
) -> dict[str, Tensor]:
    """Both (B,S) -> last_hidden_state (B,S,W)."""

    def norm(name: str, x: Tensor) -> Tensor:
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return functional.layer_norm(x, weight.shape, weight, bias, config["layer_norm_epsilon"])

    def linear(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    hidden = torch.where(attention_mask.bool(), 0.0, -torch.inf)[:, None, None]  # (B, 1, 1, S)
    x = tensors["embeddings.word_embeddings.weight"][input_ids]
    x = norm("emb_ln", x + tensors["embeddings.token_type_embeddings.weight"][0])
    for i in range(config["n_layer"]):
        layer = f"encoder.layers.{i}"
        fused = linear(f"{layer}.attn.Wqkv", x).unflatten(-1, (3, config["n_head"], -1))
        q, k, v = fused.permute(2, 0, 3, 1, 4)  # (B, N, S, H)
        q, k = turned(q, config["rotary_emb_base"]), turned(k, config["rotary_emb_base"])
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + hidden, dim=-1)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        x = norm(f"{layer}.norm1", x + linear(f"{layer}.attn.out_proj", mixed))
        if i % config["moe_every_n_layers"] == 1:
            fed = mixture(tensors, config, f"{layer}.mlp", x)
        else:
            fed = linear(f"{layer}.mlp.fc2", functional.gelu(linear(f"{layer}.mlp.fc1", x)))
        x = norm(f"{layer}.norm2", x + fed)
    return {"last_hidden_state": x}
