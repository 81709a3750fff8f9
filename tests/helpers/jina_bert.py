"""Jina BERT in plain PyTorch, from its papers and the names of its files.

Günther et al. 2023, *Jina Embeddings 2*, 2; Mohr et al. 2024, 3.1, for the form that normalises queries and
keys.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

QK_NORM = "jinaai/jina-bert-v2-qk-post-norm"
NETWORKS = {"geglu": functional.gelu, "reglu": functional.relu}


def slopes(heads: int) -> list[float]:
    """ALiBi slopes of the heads, as the code of Press et al. (2022) computes them."""
    if math.log2(heads).is_integer():
        first = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [first ** (i + 1) for i in range(heads)]
    fewer = 2 ** math.floor(math.log2(heads))
    return slopes(fewer) + slopes(2 * fewer)[0::2][: heads - fewer]


def hidden_states(
    tensors: Mapping[str, Tensor], config: Mapping, input_ids: Tensor, attention_mask: Tensor
) -> Tensor:
    """Both (B,S) -> last_hidden_state (B,S,W), from tensors by their published names without a prefix."""

    def norm(name: str, x: Tensor) -> Tensor:
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return functional.layer_norm(x, weight.shape, weight, bias, config["layer_norm_eps"])

    def linear(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))

    batch, length = input_ids.shape
    normed, network = QK_NORM in config["auto_map"]["AutoConfig"], NETWORKS[config["feed_forward_type"]]
    heads, inner = config["num_attention_heads"], config["intermediate_size"]
    order = torch.arange(length)
    fall = torch.tensor(slopes(heads), dtype=torch.float64)[:, None, None]  # (N, 1, 1)
    bias = (-fall * (order[:, None] - order).abs()).float()  # (N, S, S)
    bias = bias + torch.where(attention_mask.bool(), 0.0, -torch.inf)[:, None, None]  # (B, N, S, S)
    x = tensors["embeddings.word_embeddings.weight"][input_ids]
    x = norm("embeddings.LayerNorm", x + tensors["embeddings.token_type_embeddings.weight"][0])
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        q, k, v = (linear(f"{layer}.attention.self.{name}", x) for name in ("query", "key", "value"))
        if normed:
            q, k = (norm(f"{layer}.attention.self.layer_norm_{name}", y) for name, y in (("q", q), ("k", k)))
        q, k, v = (y.view(batch, length, heads, -1).transpose(1, 2) for y in (q, k, v))  # (B, N, S, H)
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + bias, dim=-1)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        y = norm(f"{layer}.attention.output.LayerNorm", x + linear(f"{layer}.attention.output.dense", mixed))
        if normed:
            x = norm(f"{layer}.layer_norm_1", x + y)
            up, gate = linear(f"{layer}.mlp.up_gated_layer", x).split(inner, dim=-1)
            x = norm(f"{layer}.layer_norm_2", x + linear(f"{layer}.mlp.down_layer", up * network(gate)))
        else:
            gate, up = linear(f"{layer}.mlp.gated_layers", y).split(inner, dim=-1)
            x = norm(f"{layer}.mlp.layernorm", y + linear(f"{layer}.mlp.wo", network(gate) * up))
    return x


def outputs(
    tensors: Mapping[str, Tensor], config: Mapping, input_ids: Tensor, attention_mask: Tensor
) -> dict[str, Tensor]:
    """The outputs of the class that config.json names, by name: hidden states, or the logits of its head."""
    prefix, (architecture,) = "bert.", config["architectures"]
    plain = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    x = hidden_states(plain, config, input_ids, attention_mask)

    def linear(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, plain[f"{name}.weight"], plain[f"{name}.bias"])

    if architecture.endswith("SequenceClassification"):
        return {"logits": linear("classifier", linear("pooler.dense", x[:, 0]).tanh())}
    if architecture.endswith("TokenClassification"):
        return {"logits": linear("classifier", x)}
    if architecture.endswith("QuestionAnswering"):
        start, end = linear("qa_outputs", x).unbind(-1)
        return {"start_logits": start, "end_logits": end}
    if architecture.endswith("MaskedLM"):
        transform = "cls.predictions.transform"
        x = functional.gelu(linear(f"{transform}.dense", x))
        weight, bias = plain[f"{transform}.LayerNorm.weight"], plain[f"{transform}.LayerNorm.bias"]
        x = functional.layer_norm(x, weight.shape, weight, bias, config["layer_norm_eps"])
        return {"logits": x @ plain["embeddings.word_embeddings.weight"].T + plain["cls.predictions.bias"]}
    return {"last_hidden_state": x, "pooler_output": linear("pooler.dense", x[:, 0]).tanh()}
