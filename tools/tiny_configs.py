"""Tiny configurations of any model type of transformers: the library's defaults, with small numbers."""

import re
from typing import Any

import transformers

VOCABULARY = 99
# Small numbers by the name of a setting; the first pattern that fits counts.
SMALL: dict[str, int] = {
    r"(.*_)?vocab_size|.*_vocab_size": VOCABULARY,
    r"(num_|n_)?(kv_heads|key_value_heads|query_groups)": 2,
    r".*(num_key_value_heads|n_kv_heads)": 2,
    r".*(num_attention_heads|attention_heads|n_heads|num_heads|n_head|heads)": 4,
    r".*(q_lora_rank|kv_lora_rank)": 16,
    r".*(qk_nope_head_dim|v_head_dim|qk_rope_head_dim|head_dim|d_kv|kv_channels)": 8,
    r".*(encoder_layers|decoder_layers|depth|num_blocks|n_block)": 2,
    r".*(intermediate_size|ffn_dim|ffn_hidden_size|ffn_size|d_ff|d_inner|hidden_dim_ffn|n_inner|mlp_dim)": 48,
    r".*(num_experts|num_local_experts|n_routed_experts|moe_num_experts)": 4,
    r".*(n_group|topk_group|num_expert_groups|moe_n_group)": 1,
    r".*(num_experts_per_tok|moe_topk|top_k_experts|moe_k|num_selected_experts)": 2,
    r".*(hidden_size|d_model|embed_dim|embedding_size|hidden_dim|n_embd|embed_size)": 32,
    r".*(projection_dim|dim_model)": 32,
    r"dim|width|d_embed|emb_dim|encoder_dim|decoder_dim|output_dim|proj_dim": 32,
    r"max_position_embeddings|n_positions|max_sequence_length|max_seq_len|seq_length": 64,
    r"image_size|img_size|input_size_image|crop_size": 32,
    r".*patch_size": 8,
    r"num_queries|num_query_tokens|num_object_queries": 5,
    r"num_frames": 4,
    r"tubelet_size": 2,
    r"num_mel_bins|feature_size": 16,
}
LAYERS = re.compile(r".*(num_hidden_layers|num_layers|n_layers?)")
# Settings that follow no rule, by model type.
OVERRIDES: dict[str, dict[str, Any]] = {
    "bit": {"num_groups": 4},
    "lilt": {"hidden_size": 24, "num_attention_heads": 2},
    "esmc": {"num_key_value_heads": 4},
    "glm5_next_text": {"num_key_value_heads": 4},
    "dots3_note_text": {"num_key_value_heads": 4},
    "autoformer": {"lags_sequence": [1, 2]},
    "swin2sr": {"embed_dim": 36, "num_heads": [2, 2]},
    "reformer": {"axial_pos_embds_dim": [8, 24], "axial_pos_shape": [8, 8]},
    "granite_speech5_encoder": {"context_size": 16},
}
HEADS = re.compile(r".*heads.*|num_head")
DEPTHS = re.compile(r"depths?|num_blocks|layers|num_hidden_layers|layer_depths|depths_.*")
WIDTHS = re.compile(r".*(hidden_sizes|embed_dims?|neck_hidden_sizes|channels|widths|hidden_dims|dims)")
TOKEN = re.compile(r".*(token_id|token_index|token_ids|_id)")


def tiny_config(model_type: str) -> Any:
    """The configuration of `model_type` with small numbers. Raises what its class raises."""
    config = transformers.AutoConfig.for_model(model_type)
    values = _small(config.to_dict()) | OVERRIDES.get(model_type, {})
    return type(config).from_dict(values)


def _small(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a configuration, and of those within it, with small numbers."""
    layers = next(
        (value for name, value in values.items() if LAYERS.fullmatch(name) and _is_int(value)), None
    )
    kinds = values.get("layer_types")
    kinds = kinds if isinstance(kinds, list) else []
    count = min(max(2, len(set(kinds))), 4)
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            result[name] = _small(value) if "model_type" in value else _by_layer(value, count)
        elif _is_int(value):
            result[name] = count if LAYERS.fullmatch(name) else _number(name, value)
        elif name == "layer_types" and kinds:
            chosen = list(dict.fromkeys(kinds))[:count]
            result[name] = chosen + chosen[-1:] * (count - len(chosen))
        elif isinstance(value, list) and layers is not None and len(value) == layers:
            result[name] = value[-count:]
        elif isinstance(value, list) and value and all(map(_is_int, value)):
            result[name] = _numbers(name, value)
        elif name in ("out_features", "_out_features") and isinstance(value, list) and layers is not None:
            result[name] = [f"stage{count}"]
        elif name in ("out_indices", "_out_indices") and isinstance(value, list) and layers is not None:
            result[name] = [count]
        elif name == "prediction_length":
            result[name] = 4
        else:
            result[name] = value
    if layers is not None and "out_features" in result and result["out_features"] == [f"stage{count}"]:
        result.pop("stage_names", None)
        result["out_indices"] = [count]
    if "kv_lora_rank" in result and "num_key_value_heads" in result:
        result["num_key_value_heads"] = result["num_attention_heads"]
    return result


def _by_layer(values: dict[Any, Any], count: int) -> dict[Any, Any]:
    """A setting by layer without the layers that are gone."""
    if values and all(str(name).isdigit() for name in values):
        return {name: value for name, value in values.items() if int(name) < count}
    return values


def _is_int(value: Any) -> bool:
    return type(value) is int


def _number(name: str, value: int) -> int:
    if TOKEN.fullmatch(name) and value >= VOCABULARY:
        return VOCABULARY - 1 - sum(map(ord, name)) % (VOCABULARY // 2)
    for pattern, small in SMALL.items():
        if re.fullmatch(pattern, name):
            return min(value, small) if value > 0 else value
    return value


def _numbers(name: str, values: list[int]) -> list[int]:
    if HEADS.fullmatch(name):
        return [2 if value % 2 == 0 else 1 for value in values]
    if DEPTHS.fullmatch(name):
        return [min(value, 1 + (place == 0)) for place, value in enumerate(values)]
    if WIDTHS.fullmatch(name) and min(values) >= 16:
        return [8 * (1 + place) for place in range(len(values))]
    return values
