"""Qwen3-VL (Bai et al. 2025): Qwen2-VL with DeepStack: features of the encoder in several decoder layers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _packed, qwen3
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import FeedForwardSpec, NormSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("Qwen3VLForConditionalGeneration",)}

NAMING = _packed.NAMING
DEFAULTS = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 128000,
    "rope_theta": 500000.0,
}
SECTIONS = (24, 20, 20)
DEEP_LAYERS = (8, 16, 24)


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    return architecture(config, names, qwen3, DEFAULTS)


def architecture(
    config: Config, names: TensorNames, family: ModuleType, defaults: Mapping[str, Any]
) -> VisionLanguageSpec:
    """The architecture with a decoder of `family`; `defaults` are those of text_config."""
    model = without_deep(config, names, family, defaults, SECTIONS)
    deep = config.table("vision_config").values.get("deepstack_visual_indexes", [*DEEP_LAYERS])
    if not isinstance(deep, list) or any(type(one) is not int for one in deep):
        raise UnsupportedError(
            f"{config.path}: deepstack_visual_indexes is {shortened(deep)}, expected a list"
        )
    if not deep:
        return model
    norm = model.connector.norm
    assert norm is not None
    joined = replace(norm, size=model.connector.wide)
    connector = replace(model.connector, norm=joined, normed_first=False)
    return replace(model, deep=tuple(deep), deep_connector=connector)


def without_deep(
    config: Config,
    names: TensorNames,
    family: ModuleType,
    defaults: Mapping[str, Any],
    sections: tuple[int, ...],
) -> VisionLanguageSpec:
    """The architecture without DeepStack; `sections` is the default of mrope_section."""
    vision = config.table("vision_config").with_defaults(patch_size=16)
    width = vision.integer("hidden_size", 1152)
    activation = vision.activation("hidden_act", "gelu_pytorch_tanh")
    feed_forward = FeedForwardSpec(width, vision.integer("intermediate_size", 4304), activation)
    norm, layers = NormSpec(width, _packed.EPSILON), vision.count("depth", 27)
    images = _packed.tower(vision, width, feed_forward, norm, [None] * layers, bias=True, side=_side(vision))
    text = _packed.decoder(config, names, family, defaults, partial(_axes, sections))
    return _packed.model(config, text, images)


def _side(vision: Config) -> int:
    """The rows and columns of the table of positions."""
    count = vision.integer("num_position_embeddings", 2304)
    side = math.isqrt(max(count, 0))
    if side < 1 or side**2 != count:
        raise UnsupportedError(f"{vision.path}: num_position_embeddings is {count}, expected a square")
    return side


def _axes(usual: tuple[int, ...], rope: Config, count: int) -> tuple[int, ...]:
    """The axis of each frequency: rows and columns take one of every three, as far as their section goes."""
    sections = rope.values.get("mrope_section", [*usual])
    if not isinstance(sections, list) or [type(one) for one in sections] != [int] * 3:
        raise UnsupportedError(f"{rope.path}: mrope_section is {shortened(sections)}, expected three sizes")
    axes = [0] * count
    for axis in (1, 2):
        for pair in range(axis, min(3 * sections[axis], count), 3):
            axes[pair] = axis
    return tuple(axes)


def table(spec: VisionLanguageSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return names_of(spec, qwen3)


def names_of(spec: VisionLanguageSpec, family: ModuleType) -> Table:
    """The tensor names of a model with a decoder of `family`."""
    rules, merger = _packed.table(spec, family, {"up.*": "linear_fc1.*", "down.*": "linear_fc2.*"}), "merger"
    tower = _packed.TOWER
    further: Rules = {
        "vision.embedding.position.weight": f"{tower}pos_embed.weight",
        "vision.embedding.project.bias": f"{tower}patch_embed.proj.bias",
    }
    mergers = {"connector": merger} | {
        f"deep.{i}": f"deepstack_merger_list.{i}" for i in range(len(spec.deep))
    }
    for ours, theirs in mergers.items():
        further |= {
            f"{ours}.norm.*": f"{tower}{theirs}.norm.*",
            f"{ours}.up.*": f"{tower}{theirs}.linear_fc1.*",
            f"{ours}.down.*": f"{tower}{theirs}.linear_fc2.*",
        }
    return replace(rules, rules=dict(rules.rules) | further)
