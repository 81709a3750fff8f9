"""Whisper (Radford et al. 2022): log-mel encoder with BART's decoder, or with a classification head."""

from dataclasses import replace
from typing import Any

from txexport.checkpoints.checkpoint import read_json
from txexport.checkpoints.weight_map import Rules, Table, Take, zeros
from txexport.families import bart
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AlignmentSpec,
    BlockSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    LogMelSpec,
    NormPlacement,
    Pick,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
)

TASKS = {
    "automatic-speech-recognition": ("WhisperForConditionalGeneration",),
    "audio-classification": ("WhisperForAudioClassification",),
}

NAMING = bart.NAMING
ALIASES = bart.ALIASES | {"num_key_value_heads": "encoder_attention_heads"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes; the original ignores scale_embedding."""
    config.expect(is_decoder=False, is_causal=True)
    config = config.replaced(scale_embedding=False)
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_target_positions", 448))
    layers = bart.stack_spec(config, "encoder", NormPlacement.PRE, position, normed=False)
    sound = LogMelSpec(
        config.integer("d_model"),
        config.integer("num_mel_bins", 80),
        config.integer("max_source_positions", 1500),
        Activation.GELU,  # the original ignores activation_function here
    )
    encoder = SignalStackSpec(sound, unmasked(layers.blocks), layers.num_layers, layers.final_norm)
    if task == "audio-classification":
        return EncoderSpec(encoder, _labels(config), layer_sum=config.flag("use_weighted_layer_sum", False))
    decoder = bart.stack_spec(config, "decoder", NormPlacement.PRE, position, normed=False)
    head = HeadSpec(HeadKind.CAUSAL_LM, tied=config.flag("tie_word_embeddings", True))
    decoder = replace(decoder, blocks=unmasked(decoder.blocks))
    return EncoderDecoderSpec(encoder, decoder, head, alignment=_alignment(config, decoder))


def _alignment(config: Config, decoder: TextStackSpec) -> AlignmentSpec:
    """The heads in generation_config.json; else all of the second half of the layers, as OpenAI's code does.

    A distilled model may still name heads of its teacher, which it lacks.
    """
    path = config.path.with_name("generation_config.json")
    named = read_json(path).get("alignment_heads") if path.is_file() else None
    known = [[layer, head] for layer, block in enumerate(decoder.layers) for head in _heads(block)]
    width = config.integer("median_filter_width", 7)
    if isinstance(named, list) and named and all(_is_pair(pair) and pair in known for pair in named):
        distinct = dict.fromkeys((layer, head) for layer, head in named)
        return AlignmentSpec(tuple(distinct), width, for_others=True)
    later = [(layer, head) for layer, head in known if layer >= decoder.num_layers // 2]
    return AlignmentSpec(tuple(later), width)


def _heads(block: BlockSpec) -> range:
    """The heads of a block's cross-attention."""
    return range(0 if block.cross_attention is None else block.cross_attention.num_heads)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and [type(item) for item in value] == [int, int]


def _labels(config: Config) -> HeadSpec:
    """Labels of the mean over time; the original projects before the mean, which is equal, being linear."""
    return HeadSpec(
        HeadKind.SEQUENCE,
        tied=False,
        bias=True,
        labels=config.labels(),
        pick=Pick.GLOBAL_AVERAGE,
        factored_size=config.integer("classifier_proj_size", 256),
        factored_bias=True,
    )


def unmasked(blocks: tuple[BlockSpec, ...]) -> tuple[BlockSpec, ...]:
    """`blocks` without an attention mask, since audio is not padded."""
    [block] = blocks
    if block.cross_attention is None:
        block = replace(block, attention=replace(block.dense, unmasked=True))
    else:
        block = replace(block, cross_attention=replace(block.cross_attention, unmasked=True))
    return (block,)


def table(spec: EncoderSpec | EncoderDecoderSpec) -> Table:
    """As BART's; keys have no bias."""
    if isinstance(spec, EncoderSpec):
        rules: Rules = encoder_rules() | {
            "layer_sum.weight": "layer_weights",
            "head.narrow.*": "projector.*",
            "head.*": "classifier.*",
        }
        return Table(rules | bart.stack_rules("encoder") | rules, NAMING)
    inherited = bart.table(spec)
    rules = {
        **encoder_rules(),
        "decoder.embedding.word.weight": Take(
            "decoder.embed_tokens.weight", also=("proj_out.weight",) if spec.head.tied else ()
        ),
        "head.weight": "proj_out.weight",
        "cross.{i}.k.bias": Take("decoder.layers.{i}.encoder_attn.k_proj.bias", computed=zeros),
        **_unbiased_keys("decoder"),
    }
    return Table(rules | inherited.rules | rules, NAMING, inherited.drop)


def encoder_rules() -> Rules:
    """Tensor names of the encoder that differ from BART's."""
    return {
        "encoder.embedding.first.*": "encoder.conv1.*",
        "encoder.embedding.second.*": "encoder.conv2.*",
        **_unbiased_keys("encoder"),
    }


def _unbiased_keys(side: str) -> Rules:
    return {
        f"{side}.layers.{{i}}.attention.k.bias": Take(
            f"{side}.layers.{{i}}.self_attn.k_proj.bias", computed=zeros
        )
    }
