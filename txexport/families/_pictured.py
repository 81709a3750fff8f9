"""Decoders that read images: config.json describes an image encoder and a decoder, each of a family."""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, taken
from txexport.errors import UnsupportedError
from txexport.families import (
    _pixtral,
    clip,
    clip_vision_model,
    gemma,
    gemma2,
    gemma3_text,
    llama,
    mistral,
    qwen2,
    qwen3,
    siglip,
    siglip_vision_model,
)
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import DecoderSpec, PatchSpec, SignalStackSpec

DECODERS: Mapping[str, ModuleType] = {
    "llama": llama,
    "mistral": mistral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
}
TOWERS: Mapping[str, ModuleType] = {
    "clip_vision_model": clip_vision_model,
    "siglip_vision_model": siglip_vision_model,
}
PIXTRAL: Mapping[str, ModuleType] = {"pixtral": _pixtral}
# What config.json leaves out where it is the library's default.
LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": LLAMA,
    "mistral": LLAMA
    | {"intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072},
    "ministral3": {
        "vocab_size": 131072,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 34,
        "num_attention_heads": 32,
        "max_position_embeddings": 262144,
    },
    "mistral4": {
        "vocab_size": 131072,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "max_position_embeddings": 1048576,
    },
    "qwen2": LLAMA
    | {
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
    },
    "qwen3": LLAMA
    | {
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "head_dim": 128,
    },
    "gemma": {
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "max_position_embeddings": 8192,
    },
    "gemma2": {
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 8192,
    },
    "gemma3_text": {
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
    },
    "lfm2": {
        "vocab_size": 65536,
        "hidden_size": 2560,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
}
# An image encoder where config.json describes none.
CLIP_336 = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 336,
    "patch_size": 14,
}
MOST_LAYERS = 256  # of an image encoder
# Families that also tie the head where text_config alone says so.
TIED_BY_TEXT = ("llava", "llava_onevision", "qwen2_vl", "qwen2_5_vl")
TEXT, TOWER = "language_model.", "vision_tower."
NAMING = Naming(
    "model.",
    parts={TEXT: Naming("model."), TOWER: Naming("vision_model."), "multi_modal_projector.": Naming()},
)


def decoder(
    config: Config,
    names: TensorNames,
    usual: str = "llama",
    ties: bool = False,
    known: Mapping[str, ModuleType] = DECODERS,
) -> tuple[ModuleType, DecoderSpec]:
    """The decoder's family, `usual` where text_config names none, and the decoder that it describes.

    `ties` is as for `tied`; `known` are the families that are proved.
    """
    model_type = config.table("text_config").values.get("model_type", usual)
    family = _known(config, "text_config", model_type, known)
    text = config.table("text_config").with_defaults(**DEFAULTS[model_type])
    text = text.replaced(tie_word_embeddings=tied(config, names, ties))
    text = text.renamed(getattr(family, "ALIASES", {}))
    text.check_supported(with_code=False)
    spec = family.spec(text, "text-generation", names)
    assert isinstance(spec, DecoderSpec)
    return family, spec


def tied(config: Config, names: TensorNames, ties: bool = False) -> bool:
    """Tell whether the decoder's head is the word embedding.

    It is where no head is stored, and config.json says so, of which `ties` is the default; text_config
    counts in TIED_BY_TEXT alone. A stored head is read whatever they say, as transformers does; a head that
    is neither stored nor tied it would fill at random.
    """
    stated = config.flag("tie_word_embeddings", ties)
    if config.values.get("model_type") in TIED_BY_TEXT:
        stated = stated or config.table("text_config").flag("tie_word_embeddings", False)
    return stated and not any("lm_head." in name for name in names)


def tower(config: Config, usual: int = -2, known: Mapping[str, ModuleType] = TOWERS) -> SignalStackSpec:
    """The layers of vision_config up to those of vision_feature_layer, without a norm after them.

    `usual` is its default; `known` are the families that are proved.
    """
    vision = config.with_defaults(vision_config=CLIP_336).table("vision_config")
    model_type = vision.values.get("model_type", "clip_vision_model")
    family = _known(config, "vision_config", model_type, known)
    if family is siglip_vision_model:
        stack = siglip.vision_stack(siglip.vision_config(vision))
    else:
        stack = (_pixtral if family is _pixtral else clip).vision_stack(vision)
    return up_to(config, stack, usual)


def up_to(config: Config, stack: SignalStackSpec, usual: int) -> SignalStackSpec:
    """The layers of an image encoder up to those of vision_feature_layer, by default `usual`, without a norm.

    Raises UnsupportedError for several layers, whose vectors are joined.
    """
    layer = config.values.get("vision_feature_layer", usual)
    if type(layer) is not int or not -stack.num_layers - 1 <= layer <= stack.num_layers:
        raise UnsupportedError(
            f"{config.path}: vision_feature_layer is {layer!r}; expected one layer of {stack.num_layers}"
        )
    count = layer % (stack.num_layers + 1)
    if not count:
        raise UnsupportedError(f"{config.path}: vision_feature_layer is {layer}, before all layers")
    return replace(stack, num_layers=count, final_norm=None)


def skipped(config: Config, stack: SignalStackSpec) -> int:
    """The vectors before an image's patches that vision_feature_select_strategy leaves out."""
    patches = stack.embedding
    assert isinstance(patches, PatchSpec)
    strategy = config.text("vision_feature_select_strategy", "default")
    if (strategy, patches.tokens) not in (("default", 1), ("full", 0)):
        raise UnsupportedError(
            f"{config.path}: vision_feature_select_strategy is {strategy!r} over {patches.tokens} class "
            "tokens; expected 'default' over one, or 'full' over none"
        )
    return patches.tokens


def check_merged(config: Config, key: str, merged: int, grid: tuple[int, int]) -> None:
    """Raise UnsupportedError unless squares of `merged` by `merged` patches fill the grid of an image."""
    if merged < 1 or any(side % merged for side in grid):
        raise UnsupportedError(
            f"{config.path}: {key} is {shortened(config.values.get(key))}, and squares of {merged} x {merged}"
            f" patches do not fill an image of {grid[0]} x {grid[1]}"
        )


def decoder_rules(family: ModuleType, spec: DecoderSpec, prefix: str) -> tuple[Rules, tuple[str, ...]]:
    """Tensor names of the decoder and its head, and those that are left out."""
    table, rules = family.table(spec), Rules()
    for key, rule in table.rules.items():
        take = taken(rule)
        inner = take.renamed(lambda name: f"{prefix}{name}")
        inner = replace(inner, also=(*take.also, *inner.also))
        rules[key] = replace(inner, fallback=take.source) if key.startswith("head.") else inner
    return rules, tuple(f"{prefix}{pattern}" for pattern in table.drop)


def tower_rules(spec: SignalStackSpec, prefix: str) -> tuple[Rules, tuple[str, ...]]:
    """Tensor names of the image encoder, and those that are left out: layers behind its last, norm, pool."""
    rules = clip.vision_rules("vision", prefix)
    later = tuple(f"{prefix}encoder.layers.{layer}.*" for layer in range(spec.num_layers, MOST_LAYERS))
    left_out = (f"{prefix}head.*", f"{prefix}embeddings.position_ids")
    if spec.final_norm is None:
        return rules, (*later, *left_out, f"{prefix}post_layernorm.*")
    return rules | {"vision.final_norm.*": f"{prefix}post_layernorm.*"}, left_out


def _known(config: Config, side: str, model_type: str, families: Mapping[str, ModuleType]) -> ModuleType:
    if model_type not in families:
        raise UnsupportedError(
            f"{config.path}: {side} is of a '{model_type}', expected one of {', '.join(families)}"
        )
    return families[model_type]
