"""Whisper (Radford et al. 2022): an encoder of spectrograms and BART's decoder, pre-norm."""

from dataclasses import replace

import numpy as np

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    BlockSpec,
    EncoderDecoderSpec,
    HeadKind,
    HeadSpec,
    LogMelSpec,
    NormPlacement,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
)

TASKS = {"automatic-speech-recognition": ("WhisperForConditionalGeneration",)}

NAMING = bart.NAMING
ALIASES = bart.ALIASES | {"num_key_value_heads": "encoder_attention_heads"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes; its scale_embedding scales nothing in the original."""
    config.expect(is_decoder=False)
    config = config.replaced(scale_embedding=False)
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_target_positions", 448))
    positions = dict.fromkeys(bart.SIDES, position)
    base = bart.encoder_decoder_spec(config, names, NormPlacement.PRE, positions=positions, normed=False)
    sound = LogMelSpec(
        config.integer("d_model"),
        config.integer("num_mel_bins", 80),
        config.integer("max_source_positions", 1500),
        Activation.GELU,  # whatever activation_function says
    )
    encoder, tied = base.encoder, config.flag("tie_word_embeddings", True)
    return EncoderDecoderSpec(
        encoder=SignalStackSpec(
            *(sound, _unmasked(encoder.blocks), encoder.num_layers), final_norm=encoder.final_norm
        ),
        decoder=replace(base.decoder, blocks=_unmasked(base.decoder.blocks)),
        head=HeadSpec(HeadKind.CAUSAL_LM, tied=tied),
    )


def _unmasked(blocks: tuple[BlockSpec, ...]) -> tuple[BlockSpec, ...]:
    """`blocks` with no mask over sounds, which have no padding."""
    [block] = blocks
    if block.cross_attention is None:
        block = replace(block, attention=replace(block.dense, unmasked=True))
    else:
        block = replace(block, cross_attention=replace(block.cross_attention, unmasked=True))
    return (block,)


def table(spec: EncoderDecoderSpec) -> Table:
    """As BART's; keys have no bias."""
    inherited = bart.table(spec)
    rules: Rules = {
        "encoder.embedding.first.*": "encoder.conv1.*",
        "encoder.embedding.second.*": "encoder.conv2.*",
        "decoder.embedding.word.weight": Take(
            "decoder.embed_tokens.weight", also=("proj_out.weight",) if spec.head.tied else ()
        ),
        "head.weight": "proj_out.weight",
        "cross.{i}.k.bias": Take("decoder.layers.{i}.encoder_attn.k_proj.bias", computed=zeros),
    }
    for side in bart.SIDES:
        key = f"{side}.layers.{{i}}.self_attn.k_proj.bias"
        rules[f"{side}.layers.{{i}}.attention.k.bias"] = Take(key, computed=zeros)
    return Table(rules | inherited.rules | rules, NAMING, inherited.drop)


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Nothing to add, for each key."""
    return np.zeros(shape, np.float32)
