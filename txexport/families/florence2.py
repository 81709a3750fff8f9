"""Florence-2 (Xiao et al. 2024): DaViT's vectors of an image among the tokens of BART's encoder."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, taken
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import bart
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    DualStageSpec,
    EncoderDecoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PicturesSpec,
    TextStackSpec,
)

TASKS = {"image-text-to-text": ("Florence2ForConditionalGeneration",)}

TEXT, TOWER, PROJECTOR = "language_model.", "vision_tower.", "multi_modal_projector."
NAMING = Naming("model.", parts={TEXT: Naming(), TOWER: Naming(), PROJECTOR: Naming()})
# What config.json means where it leaves a setting out.
VISION: dict[str, Any] = {
    "depths": [1, 1, 9, 1],
    "patch_size": [7, 3, 3, 3],
    "patch_stride": [4, 2, 2, 2],
    "patch_padding": [3, 1, 1, 1],
    "patch_prenorm": [False, True, True, True],
    "embed_dim": [128, 256, 512, 1024],
    "num_heads": [4, 8, 16, 32],
    "num_groups": [4, 8, 16, 32],
}
SETTINGS = ("depths", "patch_size", "patch_stride", "num_heads", "num_groups")
BART = {
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "d_model": 1024,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(tie_word_embeddings=True)
    text = config.table("text_config").with_defaults(**BART)
    text.expect(model_type="bart", tie_word_embeddings=True)
    base = bart.encoder_decoder_spec(text, names, NormPlacement.POST)
    assert isinstance(base.encoder, TextStackSpec)
    token = config.integer("image_token_id", 51289)
    if token >= base.vocab_size:
        raise CheckpointError(
            f"{config.path}: image_token_id is {token}, expected less than vocab_size {base.vocab_size}"
        )
    embedding = replace(base.encoder.embedding, image_token_id=token)
    images = pictures(config.table("vision_config").with_defaults(**VISION))
    if images.norm.size != base.encoder.hidden_size:
        raise CheckpointError(
            f"{config.path}: projection_dim is {images.norm.size}, expected d_model "
            f"{base.encoder.hidden_size}"
        )
    return replace(base, encoder=replace(base.encoder, embedding=embedding), pictures=images)


def pictures(config: Config) -> PicturesSpec:
    """The image encoder and what projects its vectors to those of tokens."""
    config.expect(model_type="florence_vision")
    sizes = config.integers("embed_dim")
    if not 1 <= len(sizes) <= 8:
        raise CheckpointError(f"{config.path}: embed_dim has {len(sizes)} numbers, expected 1 to 8")
    settings: dict[str, list[int] | list[float]] = {name: config.integers(name) for name in SETTINGS}
    settings["patch_padding"] = config.numbers("patch_padding")
    first = config.values.get("patch_prenorm")
    lengths = {name: len(values) for name, values in settings.items()}
    lengths["patch_prenorm"] = len(first) if isinstance(first, list) else 0
    for name, length in lengths.items():
        if length != len(sizes):
            raise CheckpointError(
                f"{config.path}: {name} is {shortened(config.values.get(name))}, expected {len(sizes)} "
                "values, one for each stage"
            )
    if any(type(one) is not bool for one in first or ()):
        raise CheckpointError(f"{config.path}: patch_prenorm is {shortened(first)}, expected true or false")
    stages = []
    for number, size in enumerate(sizes):
        inputs = sizes[number - 1] if number else config.integer("in_channels", 3)
        values = {name: int(numbers[number]) for name, numbers in settings.items()}
        _check_stage(config, number, values)
        stages.append(_stage(config, inputs, size, values, first[number] if first else False))
    return PicturesSpec(
        tuple(stages),
        config.integer("window_size", 12),
        config.integer("max_position_embeddings", 50),
        config.integer("max_temporal_embeddings", 100),
        NormSpec(config.integer("projection_dim", 1024), bart.EPS),
        config.flag("qkv_bias", True),
        bart.EPS,
    )


def _stage(
    config: Config, inputs: int, size: int, values: Mapping[str, int], norm_first: bool
) -> DualStageSpec:
    """One stage, of the numbers that each has of its own."""
    config.check_width("embed_dim", size)
    config.check_count("depths", values["depths"])
    for name in ("num_heads", "num_groups"):
        config.head_dim(size, values[name])
    inner, activation = int(size * config.number("mlp_ratio", 4.0)), "activation_function"
    return DualStageSpec(
        inputs,
        size,
        values["patch_size"],
        values["patch_stride"],
        NormSpec(inputs if norm_first else size, bart.EPS),
        norm_last=not norm_first,
        num_layers=values["depths"],
        num_heads=values["num_heads"],
        num_groups=values["num_groups"],
        feed_forward=FeedForwardSpec(size, inner, config.activation(activation, "gelu")),
    )


def _check_stage(config: Config, number: int, values: Mapping[str, int]) -> None:
    """Raise UnsupportedError where the vectors of a stage are not its pixels divided by the stride."""
    kernel, stride, around = (values[name] for name in ("patch_size", "patch_stride", "patch_padding"))
    if kernel % 2 == 0 or around != kernel // 2 or stride > kernel:
        raise UnsupportedError(
            f"{config.path}: stage {number} has patch_size {kernel}, patch_stride {stride} and patch_padding "
            f"{around}; expected an odd patch_size, at least the stride, and half of it as patch_padding"
        )


def table(spec: EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert spec.pictures is not None
    texts, head = bart.table(spec), "lm_head.weight"
    rules: Rules = {
        key: taken(rule).renamed(lambda name: name if name == head else f"{TEXT}{name}")
        for key, rule in texts.rules.items()
        if not key.startswith("head.bias")
    }
    number = 0
    for place, stage in enumerate(spec.pictures.stages):
        rules[f"pictures.mergings.{place}.project.*"] = f"{TOWER}convs.{place}.conv.*"
        rules[f"pictures.mergings.{place}.norm.*"] = f"{TOWER}convs.{place}.norm.*"
        for layer in range(2 * stage.num_layers):
            kinds = ("channel_block", "channel_attn") if layer % 2 else ("spatial_block", "window_attn")
            rules |= _layer(f"pictures.layers.{number}", f"{TOWER}blocks.{place}.{layer // 2}", *kinds)
            number += 1
    rules |= {
        "pictures.vectors.row.weight": f"{PROJECTOR}image_position_embed.row_embeddings.weight",
        "pictures.vectors.column.weight": f"{PROJECTOR}image_position_embed.column_embeddings.weight",
        "pictures.vectors.moment.weight": f"{PROJECTOR}visual_temporal_embed.pos_idx_to_embed",
        "pictures.vectors.project.*": f"{PROJECTOR}image_projection.*",
        "pictures.vectors.norm.*": f"{PROJECTOR}image_proj_norm.*",
    }
    return Table(rules, NAMING, tuple(f"{TEXT}{name}" for name in texts.drop))


def _layer(ours: str, source: str, block: str, attention: str) -> Rules:
    """One layer, within windows or between channels."""
    within = f"{source}.{block}"
    rules: Rules = {
        f"{ours}.position.*": f"{within}.conv1.*",
        f"{ours}.attention_norm.*": f"{within}.norm1.*",
        f"{ours}.attention.o.*": f"{within}.{attention}.proj.*",
        f"{ours}.second_position.*": f"{within}.conv2.*",
        f"{ours}.feed_forward_norm.*": f"{within}.norm2.*",
        f"{ours}.feed_forward.up.*": f"{within}.ffn.fc1.*",
        f"{ours}.feed_forward.down.*": f"{within}.ffn.fc2.*",
    }
    for part, name in enumerate("qkv"):
        rules[f"{ours}.attention.{name}.*"] = Take(f"{within}.{attention}.qkv.*", part=part, parts=3)
    return rules
