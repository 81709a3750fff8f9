"""GGUF files of tiny checkpoints, written by llama.cpp's rules, independently of txexport.

Sources: ggml's docs/gguf.md for the container, llama.cpp's converters (`conversion/`) for names, orders and
metadata, ggml-common.h for the layouts of blocks.
"""

import json
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL = 1, 3  # token types
Packed = tuple[int, bytes]  # ggml's type number, and its bytes
Tensors = Mapping[str, tuple[tuple[int, ...], Packed]]


def text(value: str) -> bytes:
    """A string in the container's encoding."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def typed(value: object) -> bytes:
    """A metadata value, preceded by its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    assert isinstance(value, list)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
    kind, letter = (F32, "f") if isinstance(value[0], float) else (I32, "i")
    return struct.pack(f"<IIQ{len(value)}{letter}", ARRAY, kind, len(value), *value)


def write(path: Path, metadata: Mapping[str, object], tensors: Tensors, version: int = 3) -> Path:
    """Write a GGUF file with an alignment of 32 bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(text(key) + typed(value) for key, value in metadata.items())
    body = b""
    for name, (shape, (kind, data)) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += struct.pack("<IQ", kind, len(body))
        body += data + bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def floats(name: str, array: np.ndarray) -> Packed:
    """Numbers as float32."""
    return 0, array.astype("<f4").tobytes()


def q8_0(array: np.ndarray) -> bytes:
    """Rounded to Q8_0: 32 integers of 8 bits after a scale."""
    blocks = array.reshape(-1, 32)
    scales = (np.abs(blocks).max(1, keepdims=True) / 127).astype("<f2")
    integers = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-8)).astype(np.int8)
    return b"".join(s.tobytes() + i.tobytes() for s, i in zip(scales, integers, strict=True))


def q4_0(array: np.ndarray) -> bytes:
    """Rounded to Q4_0: 32 integers of 4 bits after a scale, the second 16 in the upper halves."""
    blocks = array.reshape(-1, 32)
    scales = (np.abs(blocks).max(1, keepdims=True) / 7).astype("<f2")
    integers = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-8)).astype(np.int8) + 8
    halves = (integers[:, :16] | integers[:, 16:] << 4).astype(np.uint8)
    return b"".join(s.tobytes() + i.tobytes() for s, i in zip(scales, halves, strict=True))


# Type -> elements and bytes of a block, and the offsets of its float16 scales.
LAYOUTS = {
    **{2: (32, 18, (0,)), 3: (32, 20, (0, 2)), 6: (32, 22, (0,)), 7: (32, 24, (0, 2)), 8: (32, 34, (0,))},
    **{10: (256, 84, (80, 82)), 11: (256, 110, (108,)), 12: (256, 144, (0, 2)), 13: (256, 176, (0, 2))},
    **{14: (256, 210, (208,)), 20: (32, 18, (0,)), 23: (256, 136, (0,))},
}
TYPICAL = {2: 2e-2, 3: 2e-2, 6: 1e-2, 7: 1e-2, 8: 1e-3, 10: 1e-2, 11: 4e-3, 12: 4e-4, 13: 2e-4, 14: 6e-5}
TYPICAL |= {20: 1e-3, 23: 6e-5}


def noise(kind: int, shape: tuple[int, ...], seed: int) -> bytes:
    """Random blocks of a type, with scales that give weights of an ordinary size."""
    elements, nbytes, scale_offsets = LAYOUTS[kind]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (int(np.prod(shape)) // elements, nbytes), np.uint8)
    for offset in scale_offsets:
        scales = (TYPICAL[kind] * rng.uniform(0.5, 1.5, len(blocks))).astype("<f2")
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.tobytes()


def every(kind: int) -> Callable[[str, np.ndarray], Packed]:
    """Pack matrices whose rows fill blocks as random blocks of a type, all others as float32."""

    def pack(name: str, array: np.ndarray) -> Packed:
        if array.ndim == 2 and array.shape[-1] % LAYOUTS[kind][0] == 0:
            return kind, noise(kind, array.shape, sum(name.encode()))
        return floats(name, array)

    return pack


LAYER = r"(?:model|transformer|gpt_neox)\.(?:layers|h|blocks)\.(\d+)\."
NAMES = {
    r"model\.embed_tokens|transformer\.(?:wte|word_embeddings)|gpt_neox\.embed_in": "token_embd",
    r"transformer\.word_embeddings_layernorm": "token_embd_norm",
    r"transformer\.wpe": "position_embd",
    r"model\.(?:norm|final_layernorm)|transformer\.(?:ln_f|norm_f)|gpt_neox\.final_layer_norm": "output_norm",
    r"lm_head|embed_out": "output",
}
IN_LAYER = {
    r"self_attn\.([qkv])_proj": r"attn_\1",
    r"self_attn\.([qk])_norm": r"attn_\1_norm",
    r"(?:self_attn\.qkv_proj|attn\.c_attn|(?:self_)?attention\.query_key_value|attn\.Wqkv)": "attn_qkv",
    r"(?:self_attn\.(?:o_proj|dense)|attn\.(?:c_proj|out_proj)|(?:self_)?attention\.dense)": "attn_output",
    r"(?:input_layernorm|ln_1|norm_1|ln_mlp)": "attn_norm",
    r"ln_attn": "attn_norm_2",
    r"(?:post_attention_layernorm|ln_2|norm_2)": "ffn_norm",
    r"mlp\.gate_proj": "ffn_gate",
    r"(?:mlp\.(?:up_proj|gate_up_proj|c_fc|fc1|dense_h_to_4h)|ffn\.up_proj)": "ffn_up",
    r"(?:mlp\.(?:down_proj|c_proj|fc2|dense_4h_to_h)|ffn\.down_proj)": "ffn_down",
}
GEMMA2 = {
    r"post_attention_layernorm": "post_attention_norm",
    r"pre_feedforward_layernorm": "ffn_norm",
    r"post_feedforward_layernorm": "post_ffw_norm",
}
ARCHITECTURES = {"phi": "phi2", "gpt_neox": "gptneox", "mistral": "llama"}


def ggml_name(name: str, model_type: str) -> str:
    """llama.cpp's name of a tensor."""
    module, leaf = name.rsplit(".", 1)
    if match := re.match(LAYER, name):
        rest, table = module.removeprefix(match[0]), IN_LAYER
        if model_type == "gemma2":
            table = GEMMA2 | IN_LAYER
        for pattern, ours in table.items():
            if inner := re.fullmatch(pattern, rest):
                return f"blk.{match[1]}.{inner.expand(ours)}.{leaf}"
    for pattern, ours in NAMES.items():
        if re.fullmatch(pattern, module):
            return f"{ours}.{leaf}"
    raise AssertionError(name)


def heads_of(config: Mapping) -> tuple[int, int]:
    """The numbers of query and key/value heads."""
    heads = next(config[key] for key in ("num_attention_heads", "n_head", "n_heads") if key in config)
    keys = config.get("num_key_value_heads", heads)
    if config["model_type"] == "falcon":
        keys = config["num_kv_heads"] if config["new_decoder_architecture"] else 1
    return heads, keys


def changed(name: str, array: np.ndarray, config: Mapping) -> np.ndarray:
    """A tensor as llama.cpp's converters reorder or shift it."""
    model_type, (heads, keys) = config["model_type"], heads_of(config)
    if model_type in ("llama", "mistral") and re.search(r"\.[qk]_proj\.", name):
        count = heads if ".q_proj." in name else keys
        halves = array.reshape(count, 2, array.shape[0] // count // 2, *array.shape[1:])
        return halves.swapaxes(1, 2).reshape(array.shape)
    if model_type == "gemma2" and name.endswith("norm.weight"):
        return array + np.float32(1)
    if model_type == "gpt2" and re.search(r"\.(c_attn|c_proj|c_fc)\.weight", name):
        return array.T
    if "query_key_value" in name:
        count, shared = (keys, heads // keys) if model_type == "falcon" else (heads, 1)
        grouped = array.reshape(count, shared + 2, -1, *array.shape[1:])
        parts = (grouped[:, :-2], grouped[:, -2], grouped[:, -1])
        return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])
    return array


def metadata(config: Mapping, intermediate: int) -> dict[str, object]:
    """The metadata that llama.cpp's converters write for a config.json of transformers 5."""
    model_type, (heads, keys) = config["model_type"], heads_of(config)
    name = ARCHITECTURES.get(model_type, model_type)

    def first(*names: str) -> object:
        return next((config[key] for key in names if config.get(key) is not None), None)

    width = first("hidden_size", "n_embd", "d_model")
    head_dim = config.get("head_dim") or width // heads
    values: dict[str, object] = {
        "block_count": first("num_hidden_layers", "n_layer", "n_layers"),
        "context_length": first("max_position_embeddings", "n_positions", "max_seq_len") or 2048,
        "embedding_length": width,
        "feed_forward_length": intermediate,
        "attention.head_count": heads,
    }
    if "rms_norm_eps" in config:
        values["attention.layer_norm_rms_epsilon"] = config["rms_norm_eps"]
    else:
        eps = first("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon")
        values["attention.layer_norm_epsilon"] = eps
    if model_type not in ("gpt2", "gpt_neox", "mpt"):
        values["attention.head_count_kv"] = keys
    if config.get("head_dim"):
        values |= {"attention.key_length": head_dim, "attention.value_length": head_dim}
    rope = config.get("rope_parameters") or {}
    share = rope.get("partial_rotary_factor", 1.0)
    if model_type in ("llama", "mistral", "phi", "phi3", "gpt_neox"):
        values["rope.dimension_count"] = int(share * head_dim)
    if model_type in ("llama", "mistral", "qwen2", "qwen3", "phi3", "starcoder2"):
        values["rope.freq_base"] = float(rope["rope_theta"])
    if rope.get("rope_type") in ("linear", "yarn"):
        values |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if rope.get("rope_type") == "yarn":
        values["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if model_type == "gemma2":
        values["attn_logit_softcapping"] = config["attn_logit_softcapping"]
        values["final_logit_softcapping"] = config["final_logit_softcapping"]
        values["attention.sliding_window"] = config["sliding_window"]
    if model_type == "phi3":
        values["rope.scaling.original_context_length"] = config["original_max_position_embeddings"]
        values["attention.sliding_window"] = config["sliding_window"] or 0
        if rope.get("rope_type") == "longrope":
            scale = config["max_position_embeddings"] / config["original_max_position_embeddings"]
            length = config["original_max_position_embeddings"]
            values["rope.scaling.attn_factor"] = float(np.sqrt(1 + np.log(scale) / np.log(length)))
    if model_type == "gpt_neox":
        values["use_parallel_residual"] = config["use_parallel_residual"]
    if model_type == "falcon":
        values["tensor_data_layout"] = "jploski"
    if model_type == "mpt":
        values["attention.max_alibi_bias"] = float(config["attn_config"]["alibi_bias_max"])
    return {"general.architecture": name, "general.name": "tiny"} | {
        f"{name}.{key}": value for key, value in values.items()
    }


def factors(config: Mapping) -> dict[str, np.ndarray]:
    """The tensors of rotary factors that llama.cpp's converters write for a config.json."""
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "longrope":
        return {
            f"rope_factors_{kind}.weight": np.array(rope[f"{kind}_factor"], np.float32)
            for kind in ("long", "short")
        }
    if rope.get("rope_type") != "llama3":
        return {}
    size = config["head_dim"]
    result = []
    for i in range(0, size, 2):
        wave = 2 * np.pi * rope["rope_theta"] ** (i / size)
        length, factor = rope["original_max_position_embeddings"], rope["factor"]
        if wave < length / rope["high_freq_factor"]:
            result.append(1.0)
        elif wave > length / rope["low_freq_factor"]:
            result.append(factor)
        else:
            smooth = (length / wave - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"]
            )
            result.append(1 / ((1 - smooth) / factor + smooth))
    return {"rope_freqs.weight": np.array(result, np.float32)}


def vocabulary(folder: Path, config: Mapping, pre: str) -> dict[str, object]:
    """The metadata of the byte-level tokenizer of a checkpoint."""
    model = json.loads((folder / "tokenizer.json").read_text())
    ids = {number: word for word, number in model["model"]["vocab"].items()}
    special = {one["id"] for one in model["added_tokens"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["model"]["merges"]]
    tokens = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [ids[i] for i in range(len(ids))],
        "tokenizer.ggml.token_type": [CONTROL if i in special else NORMAL for i in range(len(ids))],
        "tokenizer.ggml.merges": merges,
        **{
            f"tokenizer.ggml.{theirs}_token_id": config[f"{ours}_token_id"]
            for ours, theirs in tokens.items()
            if isinstance(config.get(f"{ours}_token_id"), int)
        },
        "tokenizer.ggml.add_bos_token": False,
    }


def contents(
    folder: Path, pack: Callable[[str, np.ndarray], Packed] = floats, pre: str = "gpt-2"
) -> tuple[dict[str, object], dict[str, tuple[tuple[int, ...], Packed]]]:
    """The metadata and the tensors of a checkpoint folder of transformers 5."""
    config = json.loads((folder / "config.json").read_text())
    stored = load_file(folder / "model.safetensors")
    arrays = {
        ggml_name(name, config["model_type"]): changed(name, array, config) for name, array in stored.items()
    }
    down = next(array for name, array in arrays.items() if name.endswith("ffn_down.weight"))
    packed = {name: (array.shape, pack(name, array)) for name, array in arrays.items()}
    packed |= {name: (array.shape, floats(name, array)) for name, array in factors(config).items()}
    return metadata(config, down.shape[1]) | vocabulary(folder, config, pre), packed


def convert(
    folder: Path, path: Path, pack: Callable[[str, np.ndarray], Packed] = floats, **options: str
) -> Path:
    """The GGUF file of a checkpoint folder of transformers 5."""
    return write(path, *contents(folder, pack, **options))
