"""BigBird-Pegasus (Zaheer et al. 2020): pre-norm BART, for texts that its encoder reads in full."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import bart, big_bird
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionSpec,
    EncoderDecoderSpec,
    NormPlacement,
    PositionKind,
    PositionSpec,
    StackSpec,
    TextStackSpec,
)

TASKS = {
    "text2text-generation": ("BigBirdPegasusForConditionalGeneration", "BigBirdPegasusModel"),
    "text-classification": ("BigBirdPegasusForSequenceClassification",),
    "question-answering": ("BigBirdPegasusForQuestionAnswering",),
}

NAMING = bart.NAMING
ALIASES = bart.ALIASES | {"attention_probs_dropout_prob": "attention_dropout"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes; longer texts are refused, as BigBird's."""
    config.expect(is_decoder=False)
    config = config.with_defaults(
        scale_embedding=True, activation_function="gelu_new", max_position_embeddings=4096
    )
    size = config.integer("max_position_embeddings")
    positions = {
        "encoder": PositionSpec(PositionKind.LEARNED, size, longest=big_bird.longest(config)),
        "decoder": PositionSpec(PositionKind.LEARNED, size),
    }
    base = bart.encoder_decoder_spec(config, names, NormPlacement.PRE, positions=positions, normed=False)
    bias = config.flag("use_bias", False)
    base = replace(base, encoder=_with_bias(base.encoder, bias), decoder=_with_bias(base.decoder, bias))
    if task == "text2text-generation":
        return base
    return bart.labelled(config.with_defaults(eos_token_id=1, decoder_start_token_id=2), task, base)


def _with_bias(stack: StackSpec, bias: bool) -> TextStackSpec:
    """The stack whose attention has biases, or none."""
    assert isinstance(stack, TextStackSpec)
    (block,) = stack.blocks
    block = replace(block, attention=replace(block.dense, bias=bias, output_bias=bias))
    if isinstance(block.cross_attention, AttentionSpec):
        crossed = replace(block.cross_attention, bias=bias, output_bias=bias)
        block = replace(block, cross_attention=crossed)
    return replace(stack, blocks=(block,))


def table(spec: EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = bart.table(spec)
    mixed = "encoder.layers.{i}.self_attn"
    rules: Rules = {
        **{f"{side}.final_norm.*": f"{side}.layernorm_embedding.*" for side in bart.SIDES},
        "encoder.layers.{i}.attention.q.*": f"{mixed}.self.query.*",
        "encoder.layers.{i}.attention.k.*": f"{mixed}.self.key.*",
        "encoder.layers.{i}.attention.v.*": f"{mixed}.self.value.*",
        "encoder.layers.{i}.attention.o.*": f"{mixed}.output.*",
    }
    return replace(base, rules=base.rules | rules)
