"""Tiny configurations of any model type of transformers: the library's defaults, with small numbers.

Widths by one name become one number. Lists of widths are divided by one number in the whole configuration, so
that what fitted together still does. What follows no rule is in `tiny_numbers`.
"""

import re
from collections.abc import Iterator
from typing import Any

import transformers
from tiny_numbers import DROPPED, NUMBERS

VOCABULARY = 99
WIDTH = 32
# Small numbers by the name of a setting; the first pattern that fits counts.
SMALL: dict[str, int] = {
    r"(.*_)?vocab_size|.*_vocab_size": VOCABULARY,
    r".*codebook_size|num_embeddings": 64,
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
    r".*(hidden_size|d_model|embed_dim|embedding_size|hidden_dim|n_embd|embed_size)": WIDTH,
    r".*(projection_dim|dim_model|d_latents)": WIDTH,
    r"dim|width|d_embed|emb_dim|encoder_dim|decoder_dim|output_dim|proj_dim": WIDTH,
    r"base_channels|latent_channels": 32,
    r"num_filters": 4,
    r"max_position_embeddings|n_positions|max_sequence_length|max_seq_len|seq_length": 64,
    r"max_source_positions": 20,
    r"context_size": 16,
    r"mm_tokens_per_image": 4,
    r"n_window": 8,
    r"n_window_infer": 16,
    r"image_size|img_size|input_size_image|crop_size": 32,
    r".*patch_size": 8,
    r"num_queries|num_query_tokens|num_object_queries|num_latents": 5,
    r"num_self_attends_per_block": 2,
    r"num_frames": 4,
    r"tubelet_size": 2,
    r"num_mel_bins|feature_size": 16,
}
# Numbers of settings that the library leaves open, and without which some models cannot be made.
OPEN = {
    "image_token_id": 60,
    "image_token_index": 60,
    "head_dim": 8,
    "prediction_length": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
}
LAYERS = re.compile(r".*(num_hidden_layers|num_layers|n_layers?)")
HEADS = re.compile(r".*heads.*|num_head")
DEPTHS = re.compile(r"depths?|num_blocks|layers|num_hidden_layers|layer_depths|depths_.*")
WIDTHS = re.compile(r".*(hidden_sizes|embed_dims?|channels|widths|hidden_dims|dims)")
EQUAL = re.compile(r".*(_dim|_size|_groups|channels|_features|width|_dimension|_embd)")
TOKEN = re.compile(r".*(token_id|token_index|token_ids|_id)")
NARROWEST, LEAST = 16, 8  # the narrowest width in a list that is divided, and that it becomes
MROPE = "mrope_section"


def tiny_config(model_type: str) -> Any:
    """The configuration of `model_type` with small numbers. Raises what its class raises."""
    config = transformers.AutoConfig.for_model(model_type)
    values = _with_parts(config)
    widths = [size for name, list_ in _lists(values) if WIDTHS.fullmatch(name) for size in list_]
    divisor = max(1.0, min((size for size in widths if size >= NARROWEST), default=LEAST) / LEAST)
    wide = {size for name, size in _numbers(values) if _small_number(name) == WIDTH < size}
    small = _Smaller(divisor, wide, set(widths)).of(values)
    return type(config).from_dict(_merged(small, NUMBERS.get(model_type, {})))


def _with_parts(config: Any) -> dict[str, Any]:
    """The settings of a configuration; parts that are None by default, too, where their class is known."""
    values = config.to_dict()
    for name, kind in type(config).sub_configs.items():
        if values.get(name) is None and kind is not transformers.AutoConfig:
            values[name] = kind().to_dict()
    return values


def _merged(values: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
    """Settings with `numbers` in place of some of them, part by part."""
    result = {name: value for name, value in values.items() if numbers.get(name) is not DROPPED}
    for name, value in numbers.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            result[name] = _merged(values[name], value)
        elif value is not DROPPED:
            result[name] = value
    return result


class _Smaller:
    """Makes settings small: lists of widths by `divisor`, and numbers that equal one of `wide` as those."""

    def __init__(self, divisor: float, wide: set[int], divided: set[int]):
        self.divisor, self.wide, self.divided = divisor, wide, divided

    def of(self, values: dict[str, Any]) -> dict[str, Any]:
        """The settings of a configuration, and of those within it, with small numbers."""
        layers = _layers(values)
        kinds = values.get("layer_types") or []
        features = values.get("out_features") if layers is not None else None
        stages = len(features) if isinstance(features, list) else 1
        count = max(min(max(2, len(set(kinds))), 4), stages)
        chosen = list(range(count - stages + 1, count + 1))
        result: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, dict):
                result[name] = self.of(value) if _is_part(value) else self._by_layer(value, count)
            elif isinstance(value, list) and value and len(value) == layers:
                result[name] = _of_layers(value, count)
            elif isinstance(value, list) and value and all(map(_is_int, value)):
                result[name] = self._list(name, value)
            elif isinstance(value, list) and value and isinstance(value[0], list):
                result[name] = self._nested(value)
            elif name in ("out_features", "_out_features") and isinstance(value, list) and layers is not None:
                result[name] = [f"stage{place}" for place in chosen]
            elif name in ("out_indices", "_out_indices") and isinstance(value, list) and layers is not None:
                result[name] = chosen
            elif _is_int(value):
                result[name] = (
                    count if layers is not None and LAYERS.fullmatch(name) else self._number(name, value)
                )
            else:
                result[name] = OPEN.get(name) if value is None else value
        if features:
            result.pop("stage_names", None)
            result["out_indices"] = chosen
        return _fitted(result)

    def _by_layer(self, values: dict[Any, Any], count: int) -> dict[Any, Any]:
        """A setting by layer without the layers that are gone; small numbers in what remains."""
        if values and all(str(name).isdigit() for name in values):
            return {
                name: self.of(value) if isinstance(value, dict) else value
                for name, value in values.items()
                if int(name) < count
            }
        return values

    def _number(self, name: str, value: int) -> int:
        if TOKEN.fullmatch(name) and value >= VOCABULARY:
            return VOCABULARY - 1 - sum(map(ord, name)) % (VOCABULARY // 2)
        small = _small_number(name)
        if small is not None:
            return min(value, small) if value > 0 else value
        if EQUAL.fullmatch(name) and value in self.wide:
            return WIDTH
        return self._divided(value) if EQUAL.fullmatch(name) and value in self.divided else value

    def _list(self, name: str, values: list[int]) -> list[int]:
        if HEADS.fullmatch(name):
            return [2 if value % 2 == 0 else 1 for value in values]
        if DEPTHS.fullmatch(name):
            return [min(value, 1 + (place == 0)) for place, value in enumerate(values)]
        if WIDTHS.fullmatch(name) and len({*values}) == 1 and values[0] in self.wide:
            return [WIDTH] * len(values)
        return [self._divided(value) for value in values] if WIDTHS.fullmatch(name) else values

    def _nested(self, values: Any) -> Any:
        """Lists in lists, as of blocks of convolutions, with widths that are also in other lists divided."""
        if isinstance(values, list):
            return [self._nested(value) for value in values]
        return self._divided(values) if _is_int(values) and values in self.divided else values

    def _divided(self, value: int) -> int:
        return round(value / self.divisor) if value >= NARROWEST else value


def _layers(values: dict[str, Any]) -> int | None:
    """The number of layers, None where it is that of stages, which remain."""
    layers = next(
        (value for name, value in values.items() if LAYERS.fullmatch(name) and _is_int(value)), None
    )
    stages = [len(list_) for name, list_ in values.items() if isinstance(list_, list) and _of_stages(name)]
    return None if layers in stages else layers


def _of_stages(name: str) -> bool:
    return bool(DEPTHS.fullmatch(name) or WIDTHS.fullmatch(name))


def _of_layers(values: list[Any], count: int) -> list[Any]:
    """A list with an entry for each layer, for `count` of them: one of each kind, where there are few."""
    kinds = [value for place, value in enumerate(values) if value not in values[:place]]
    if len(kinds) <= count:
        return kinds + kinds[-1:] * (count - len(kinds))
    numbered = all(_is_int(value) and value <= place for place, value in enumerate(values))
    return values[:count] if numbered else values[-count:]


def _fitted(values: dict[str, Any]) -> dict[str, Any]:
    """Settings whose sizes of heads fit each other."""
    if "kv_lora_rank" in values and "num_key_value_heads" in values:
        values["num_key_value_heads"] = values["num_attention_heads"]
    if {"qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim"} <= values.keys():
        values["qk_head_dim"] = values["qk_nope_head_dim"] + values["qk_rope_head_dim"]
    rope = values.get("rope_parameters")
    if rope == {} and values.get("layer_types"):
        default = {"rope_type": "default", "rope_theta": 10000.0}
        values["rope_parameters"] = dict.fromkeys(dict.fromkeys(values["layer_types"]), default)
    if isinstance(rope, dict) and isinstance(rope.get(MROPE), list):
        values |= _with_sections(values, rope)
    return values


def _with_sections(values: dict[str, Any], rope: dict[str, Any]) -> dict[str, Any]:
    """Rotary positions in three sections, which are half of what is rotated of a head."""
    head = values.get("qk_rope_head_dim", 16)
    turned = int(head * (rope.get("partial_rotary_factor") or 1)) // 2
    third = turned // 4 or 1
    sections = {"rope_parameters": rope | {MROPE: [turned - 2 * third, third, third]}}
    if "qk_rope_head_dim" in values:
        return sections
    heads = {"num_attention_heads": 2, "num_key_value_heads": min(2, values.get("num_key_value_heads") or 2)}
    return sections | heads | ({"head_dim": head} if "head_dim" in values else {})


def _numbers(values: Any) -> Iterator[tuple[str, int]]:
    """Every number of a configuration and those within it, with its name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif _is_int(value):
            yield str(name), value


def _lists(values: Any) -> Iterator[tuple[str, list[int]]]:
    """Every list of numbers of a configuration and those within it, with its name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _lists(value)
        elif isinstance(value, list) and value and all(map(_is_int, value)):
            yield str(name), value


def _is_part(values: dict[Any, Any]) -> bool:
    """Tell whether a setting is a configuration within one, not numbers by name."""
    return "model_type" in values or any(re.fullmatch(r".*(hidden_size|heads)", str(name)) for name in values)


def _is_int(value: Any) -> bool:
    return type(value) is int


def _small_number(name: str) -> int | None:
    """The small number of a setting by this name, None where the name has none."""
    return next((small for pattern, small in SMALL.items() if re.fullmatch(pattern, name)), None)
