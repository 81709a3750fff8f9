"""Families of two models: config.json describes an `encoder` and a `decoder`, each of a family of its own.

The encoder is any that returns hidden states; the decoder is one of DECODERS, with cross-attention.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

from txexport import families
from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, taken
from txexport.errors import UnsupportedError
from txexport.families import (
    _causal,
    _mbart_decoder,
    _trocr,
    bert,
    bert_generation,
    gpt2,
    roberta,
    xlm_roberta,
)
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    FramesSpec,
    HeadKind,
    ModelSpec,
    PatchGridSpec,
    PatchSpec,
    SignalStackSpec,
    StagedStackSpec,
    TextStackSpec,
    WaveformSpec,
)
from txexport.spec.lengths import output_size

# Tasks of encoders of sounds, whose heads are left out: of all, and of those with a length adapter.
LABELLED, SPELLED = HEARD = "audio-classification", "automatic-speech-recognition"
DECODERS: Mapping[str, ModuleType] = {
    "bart": _mbart_decoder,
    "bert": bert,
    "bert-generation": bert_generation,
    "gpt2": gpt2,
    "mbart": _mbart_decoder,
    "roberta": roberta,
    "trocr": _trocr,
    "xlm-roberta": xlm_roberta,
}
GPT2: Rules = {
    "cross.{i}.k.*": Take("h.{i}.crossattention.c_attn.*", transpose=True, part=0, parts=2),
    "cross.{i}.v.*": Take("h.{i}.crossattention.c_attn.*", transpose=True, part=1, parts=2),
    "decoder.layers.{i}.cross_attention.q.*": Take("h.{i}.crossattention.q_attn.*", transpose=True),
    "decoder.layers.{i}.cross_attention.o.*": Take("h.{i}.crossattention.c_proj.*", transpose=True),
    "decoder.layers.{i}.cross_attention_norm.*": "h.{i}.ln_cross_attn.*",
}
# Elsewhere the tensors of cross-attention are named as those of self-attention, but for this prefix.
BESIDE = {".attention.": ".crossattention.", ".self_attn": ".encoder_attn"}
BUFFERS = ("decoder.h.*.crossattention.bias", "decoder.h.*.crossattention.masked_bias")

_prefix, *_others = dict.fromkeys(family.NAMING.prefix for family in DECODERS.values())
NAMING = Naming(
    parts={
        "encoder.": Naming(rename=bert.NAMING.rename),
        "decoder.": Naming(_prefix, bert.NAMING.rename, tuple(_others)),
    }
)


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The decoder, attending to the hidden states of the encoder, for `task`."""
    _, encoder = _encoder(config, task, names)
    family, base = _decoder(config, names)
    source, decoder, decoder_config = encoder.encoder, base.stack, config.table("decoder")
    assert isinstance(decoder, TextStackSpec)
    source_width = output_size(source)
    cross_width = decoder_config.values.get("cross_attention_hidden_size")
    if cross_width is not None and (
        cross_width != source_width or (cross_width != decoder.hidden_size and family is not _trocr)
    ):
        raise UnsupportedError(
            f"{config.path}: a {decoder_config.text('model_type')} with cross_attention_hidden_size "
            f"{cross_width} is not supported over an encoder of {source_width}; expected null"
        )
    projected = cross_width is None and source_width != decoder.hidden_size
    unmasked = not (isinstance(source, TextStackSpec) or source.masked)

    def crossed(_: int, block: BlockSpec) -> BlockSpec:
        wider = None if projected or source_width == decoder.hidden_size else source_width
        cross = replace(block.dense, causal=False, unmasked=unmasked, source_size=wider)
        return replace(block, attention=replace(block.dense, causal=True), cross_attention=cross)

    position = decoder.embedding.position
    if position.pad_token_id is not None:  # RoBERTa's position ids begin after pad_token_id
        position = replace(position, offset=position.offset + 1, pad_token_id=None)
    decoder = replace(decoder, embedding=replace(decoder.embedding, position=position))
    return EncoderDecoderSpec(
        encoder=_of_one_segment(source) if isinstance(source, TextStackSpec) else source,
        decoder=_causal.each_layer(_of_one_segment(decoder), crossed),
        head=replace(base.head, kind=HeadKind.CAUSAL_LM),
        projected=projected,
    )


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to tensor names: each part as its family names it."""
    family, encoder = _encoder(config, task, names)
    part: Table = family.table(encoder)
    rules = _within("encoder", encoder, part.rules)
    heads = [key for key in part.rules if not key.startswith("encoder.")]
    drop = [f"encoder.{pattern}" for pattern in part.drop]
    drop += [f"encoder.{taken(part.rules[key]).source}".replace("{i}", "*") for key in heads]
    family, base = _decoder(config, names)
    part = family.table(base)
    rules |= _within("decoder", base, part.rules) | _cross_rules(family, part.rules)
    drop += [f"decoder.{pattern}" for pattern in part.drop]
    rules["cross_projection.*"] = "enc_to_dec_proj.*"
    return Table(rules, NAMING, (*drop, *BUFFERS))


def _encoder(config: Config, task: str, names: TensorNames) -> tuple[ModuleType, EncoderSpec]:
    """The encoder's family with its config and tensor names."""
    model_type = config.table("encoder").text("model_type")
    family = families.module(model_type)
    if task not in family.TASKS:
        raise UnsupportedError(f"{config.path}: an encoder '{model_type}' does not support {task}")
    base = _part("encoder", family, task, config, names)
    match base:
        case EncoderSpec(encoder=TextStackSpec() as texts):
            read = not (texts.causal or texts.global_tokens)
        case EncoderSpec(encoder=SignalStackSpec(embedding=PatchSpec() as patches)):
            read = not patches.any_size
        case EncoderSpec(encoder=StagedStackSpec(embedding=PatchGridSpec(positioned=False))):
            read = True
        case EncoderSpec(encoder=SignalStackSpec(embedding=WaveformSpec() | FramesSpec(), squeeze=None)):
            read = task in HEARD
        case _:
            read = False
    if not read:
        raise UnsupportedError(
            f"{config.path}: an encoder '{model_type}' is not supported before a decoder; expected one of "
            "images, as vit of one size or donut-swin of any, of texts, as bert, or of sounds, as wav2vec2"
        )
    assert isinstance(base, EncoderSpec)
    return family, base


def _decoder(config: Config, names: TensorNames) -> tuple[ModuleType, EncoderSpec | DecoderSpec]:
    """The decoder's family with its config and tensor names; descendants of BERT get the masked LM head."""
    values = config.table("decoder")
    model_type = values.text("model_type")
    if model_type not in DECODERS:
        raise UnsupportedError(
            f"{config.path}: a decoder '{model_type}' is not supported behind an encoder; expected one of "
            f"{', '.join(DECODERS)}"
        )
    family = DECODERS[model_type]
    if family is not _trocr and not (
        values.flag("is_decoder", False) and values.flag("add_cross_attention", False)
    ):
        raise UnsupportedError(
            f"{config.path}: the decoder has is_decoder={values.values.get('is_decoder')} and "
            f"add_cross_attention={values.values.get('add_cross_attention')}; expected true for both"
        )
    defaults = {"add_cross_attention": False, "is_decoder": family is bert_generation}
    writes = "text-generation" in family.TASKS
    task = "text-generation" if writes else "fill-mask"
    base = _part("decoder", family, task, config, names, **defaults)
    assert isinstance(base, EncoderSpec | DecoderSpec)
    return family, base


def _part(
    side: str, family: ModuleType, task: str, config: Config, names: TensorNames, **values: bool
) -> ModelSpec:
    """The spec that `family` reads for `task` from its part of config.json, with `values` replaced."""
    part_config = config.table(side).renamed(getattr(family, "ALIASES", {})).replaced(**values)
    part_config.check_supported(with_code=False)
    prefix = f"{side}."
    inner = {key.removeprefix(prefix): full for key, full in names.names.items() if key.startswith(prefix)}
    part: ModelSpec = family.spec(part_config, task, TensorNames(names.checkpoint, inner))
    return part


def _of_one_segment(stack: TextStackSpec) -> TextStackSpec:
    """`stack` without token_type_ids: the embedding of segment 0 is added to every token."""
    several = min(stack.embedding.type_vocab_size, 1)
    return replace(stack, embedding=replace(stack.embedding, type_vocab_size=several))


def _within(side: str, part: EncoderSpec | DecoderSpec, rules: Rules) -> Rules:
    """A part's rules under its prefix: its stack's, and a decoder's head."""
    stack, embedding = _causal.stack_name(part), part.stack.embedding
    segments = embedding.type_vocab_size if isinstance(embedding, EmbeddingSpec) else 0
    result: Rules = {}
    for key, rule in rules.items():
        in_stack, take = key.startswith(f"{stack}."), taken(rule)
        if key == f"{stack}.embedding.segment.*" and segments > 1:
            take = replace(take, source=take.source.replace("*", "weight"), parts=segments)
            key = key.replace("*", "weight")
        if in_stack or side == "decoder":
            ours = key.replace(stack, side, 1) if in_stack else key
            result[ours] = take.renamed(lambda name: f"{side}.{name}")
    return result


def decoder_rules(family: ModuleType, spec: EncoderSpec, rules: Rules, prefix: str) -> Rules:
    """Tensor names of a decoder with cross-attention, whose tensors have that prefix."""
    both = _within("decoder", spec, rules) | _cross_rules(family, rules)
    return {
        key: taken(rule).renamed(lambda name: name.replace("decoder.", prefix, 1))
        for key, rule in both.items()
    }


def _cross_rules(family: ModuleType, rules: Rules) -> Rules:
    """Tensor names of a decoder's cross-attention."""
    if family is gpt2:
        return {key: taken(rule).renamed(lambda name: f"decoder.{name}") for key, rule in GPT2.items()}

    def beside(name: str) -> str:
        for self_name, cross_name in BESIDE.items():
            name = name.replace(self_name, cross_name, 1)
        return f"decoder.{name}"

    result: Rules = {}
    for key, rule in rules.items():
        _, separator, part = key.partition(".layers.{i}.attention")
        if separator:
            cross = part.startswith((".k.", ".v."))
            ours = f"cross.{{i}}{part}" if cross else f"decoder.layers.{{i}}.cross_attention{part}"
            result[ours] = taken(rule).renamed(beside)
    return result
