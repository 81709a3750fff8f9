"""config.json from a GGUF file's metadata and tensors, for each of llama.cpp's architectures.

A value that the file does not have, such as the activation, is the same in all models of the architecture.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from txexport.checkpoints.gguf.container import Packed
from txexport.checkpoints.gguf.metadata import Metadata
from txexport.checkpoints.gguf.rope import rope
from txexport.errors import CheckpointError, UnsupportedError

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
GEMMA2_27B = 46  # layers of the one Gemma 2 whose score scale is not that of the head size


@dataclass(frozen=True)
class File:
    """The source of a config: metadata, tensors, and the rotary factors."""

    metadata: Metadata
    tensors: Mapping[str, Packed]
    factors: Mapping[str, np.ndarray]

    def size(self, tensor: str, axis: int) -> int:
        """The size of a tensor along an axis. Raises CheckpointError if it has none."""
        shape = self.tensors[tensor].shape if tensor in self.tensors else ()
        if len(shape) != 2:
            raise CheckpointError(f"{self.metadata.file}: tensor '{tensor}' is no matrix, or missing")
        return shape[axis]

    @property
    def intermediate(self) -> int:
        """The intermediate size of the feed-forward network."""
        return self.size("blk.0.ffn_down.weight", 1)

    @property
    def head_dim(self) -> int:
        """The size of a head. Raises UnsupportedError if those of keys and values differ."""
        metadata = self.metadata
        heads, width = metadata.integer("attention.head_count"), metadata.integer("embedding_length")
        if heads < 1:
            raise CheckpointError(f"{metadata.file}: attention.head_count is {heads}, expected 1 or more")
        size = metadata.integer("attention.key_length", width // heads)
        if size < 1 or metadata.integer("attention.value_length", size) != size:
            raise UnsupportedError(
                f"{metadata.file}: keys and values of different sizes, or of size 0, are not supported"
            )
        return size


def _sizes(file: File, **names: str) -> dict[str, Any]:
    """The settings common to all architectures; `names` are a family's other names for them."""
    metadata = file.metadata
    values: dict[str, Any] = {
        "hidden_size": metadata.integer("embedding_length"),
        "num_hidden_layers": metadata.integer("block_count"),
        "num_attention_heads": metadata.integer("attention.head_count"),
        "max_position_embeddings": metadata.integer("context_length"),
    }
    return {names.get(key, key): value for key, value in values.items()} | {
        "vocab_size": file.size(EMBEDDING, 0),
        "tie_word_embeddings": OUTPUT not in file.tensors,
    }


def _grouped(file: File, norm: str, epsilon: str = "layer_norm_rms_epsilon") -> dict[str, Any]:
    """Sizes, key heads, rotary settings, and the norm's epsilon under the family's name."""
    heads = file.metadata.integer("attention.head_count")
    return {
        **_sizes(file),
        "num_key_value_heads": file.metadata.integer("attention.head_count_kv", heads),
        "intermediate_size": file.intermediate,
        norm: file.metadata.number(f"attention.{epsilon}"),
        **rope(file.metadata, file.head_dim, file.factors),
    }


def _llama(file: File) -> dict[str, Any]:
    """LLaMA and Mistral, which llama.cpp distinguishes only by the sliding window."""
    window = file.metadata.integer("attention.sliding_window", 0)
    values = {
        **_grouped(file, "rms_norm_eps"),
        "head_dim": file.head_dim,
        "hidden_act": "silu",
    }
    if file.metadata.integer("expert_count", 0) or file.metadata.integer("expert_used_count", 0):
        raise UnsupportedError(f"{file.metadata.file}: a llama with experts is not supported")
    if window:
        named = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": window}
        return values | named
    biased = {"attention_bias": "blk.0.attn_q.bias", "mlp_bias": "blk.0.ffn_up.bias"}
    return values | {key: tensor in file.tensors for key, tensor in biased.items()}


def _qwen2(file: File) -> dict[str, Any]:
    return _grouped(file, "rms_norm_eps") | {"hidden_act": "silu", "use_sliding_window": False}


def _qwen3(file: File) -> dict[str, Any]:
    return _qwen2(file) | {
        "head_dim": file.head_dim,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
    }


def _phi3(file: File) -> dict[str, Any]:
    values = _grouped(file, "rms_norm_eps")
    length = file.metadata.integer("rope.scaling.original_context_length", values["max_position_embeddings"])
    window = file.metadata.integer("attention.sliding_window", 0)
    return values | {
        "hidden_act": "silu",
        "original_max_position_embeddings": length,
        "sliding_window": window or None,
    }


def _gemma2(file: File) -> dict[str, Any]:
    metadata, values = file.metadata, _grouped(file, "rms_norm_eps")
    scalar = file.head_dim
    if values["num_hidden_layers"] == GEMMA2_27B:
        scalar = values["hidden_size"] // values["num_attention_heads"]
    return values | {
        "head_dim": file.head_dim,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": scalar,
        "sliding_window": metadata.integer("attention.sliding_window", 4096),
        "attn_logit_softcapping": metadata.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": metadata.number("final_logit_softcapping", 30.0),
    }


def _gpt2(file: File) -> dict[str, Any]:
    names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    _check_no_groups(file)
    return {
        **_sizes(file, **names, max_position_embeddings="n_positions"),
        "n_inner": file.intermediate,
        "layer_norm_epsilon": file.metadata.number("attention.layer_norm_epsilon"),
        "activation_function": "gelu_new",
    }


def _starcoder2(file: File) -> dict[str, Any]:
    values = _grouped(file, "norm_epsilon", "layer_norm_epsilon")
    return values | {
        "hidden_act": "gelu_pytorch_tanh",
        "use_bias": "blk.0.attn_q.bias" in file.tensors,
        "sliding_window": file.metadata.integer("attention.sliding_window", 0) or None,
    }


def _phi(file: File) -> dict[str, Any]:
    return _grouped(file, "layer_norm_eps", "layer_norm_epsilon") | {"hidden_act": "gelu_new"}


def _gpt_neox(file: File) -> dict[str, Any]:
    rotation = rope(file.metadata, file.head_dim, file.factors)
    _check_no_groups(file)
    return {
        **_sizes(file),
        "intermediate_size": file.intermediate,
        "layer_norm_eps": file.metadata.number("attention.layer_norm_epsilon"),
        "use_parallel_residual": file.metadata.flag("use_parallel_residual", True),
        "hidden_act": "gelu",
        "rotary_emb_base": rotation["rope_theta"],
        "rotary_pct": rotation.get("partial_rotary_factor", 1.0),
        "rope_scaling": rotation["rope_scaling"],
    }


def _falcon(file: File) -> dict[str, Any]:
    """Falcon 7B has one key head and one norm a layer; the others have grouped-query attention."""
    keys = file.metadata.integer("attention.head_count_kv", 1)
    norms = 2 if "blk.0.attn_norm_2.weight" in file.tensors else 1
    return {
        **_sizes(file),
        "ffn_hidden_size": file.intermediate,
        "layer_norm_epsilon": file.metadata.number("attention.layer_norm_epsilon"),
        **rope(file.metadata, file.head_dim, file.factors),
        "activation": "gelu",
        "alibi": False,
        "bias": False,
        "parallel_attn": True,
        "multi_query": True,
        "new_decoder_architecture": keys > 1 or norms > 1,
        "num_kv_heads": keys,
        "num_ln_in_parallel_attn": norms,
    }


def _bloom(file: File) -> dict[str, Any]:
    names = {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    _check_no_groups(file)
    return {
        **_sizes(file, **names, max_position_embeddings="seq_length"),
        "layer_norm_epsilon": file.metadata.number("attention.layer_norm_epsilon"),
    }


def _mpt(file: File) -> dict[str, Any]:
    metadata = file.metadata
    names = {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    _check_no_groups(file)
    width, slope = metadata.integer("embedding_length"), metadata.number("attention.max_alibi_bias", 0.0)
    return {
        **_sizes(file, **names, max_position_embeddings="max_seq_len"),
        "expansion_ratio": file.intermediate // max(width, 1),
        "layer_norm_epsilon": metadata.number("attention.layer_norm_epsilon"),
        "attn_config": {"alibi": slope > 0, "alibi_bias_max": int(slope), "clip_qkv": None},
        "no_bias": True,
    }


def _check_no_groups(file: File) -> None:
    """Raise UnsupportedError for grouped-query attention in an architecture without it."""
    heads = file.metadata.integer("attention.head_count")
    if file.metadata.integer("attention.head_count_kv", heads) != heads:
        raise UnsupportedError(
            f"{file.metadata.file}: fewer key heads are not supported for this architecture"
        )
    assert file.head_dim  # reads the sizes of keys and values


# llama.cpp's architecture -> default model_type and class, and the function that makes the config.
CONFIGS: dict[str, tuple[str, str, Callable[[File], dict[str, Any]]]] = {
    "llama": ("llama", "LlamaForCausalLM", _llama),
    "qwen2": ("qwen2", "Qwen2ForCausalLM", _qwen2),
    "qwen3": ("qwen3", "Qwen3ForCausalLM", _qwen3),
    "phi3": ("phi3", "Phi3ForCausalLM", _phi3),
    "gemma2": ("gemma2", "Gemma2ForCausalLM", _gemma2),
    "gpt2": ("gpt2", "GPT2LMHeadModel", _gpt2),
    "starcoder2": ("starcoder2", "Starcoder2ForCausalLM", _starcoder2),
    "phi2": ("phi", "PhiForCausalLM", _phi),
    "gptneox": ("gpt_neox", "GPTNeoXForCausalLM", _gpt_neox),
    "falcon": ("falcon", "FalconForCausalLM", _falcon),
    "bloom": ("bloom", "BloomForCausalLM", _bloom),
    "mpt": ("mpt", "MptForCausalLM", _mpt),
}


def config(file: File) -> dict[str, Any]:
    """The content of config.json. Raises UnsupportedError for unknown architectures, CheckpointError."""
    architecture = file.metadata.architecture
    if architecture not in CONFIGS:
        raise UnsupportedError(
            f"{file.metadata.file}: architecture '{architecture}' is not supported; "
            f"expected one of {', '.join(CONFIGS)}"
        )
    model_type, name, make = CONFIGS[architecture]
    values = {"model_type": model_type, "architectures": [name]} | make(file)
    file.metadata.check_asked()
    tokens = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return values | {f"{ours}_token_id": file.metadata.token(theirs) for ours, theirs in tokens.items()}
