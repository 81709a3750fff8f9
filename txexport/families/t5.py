"""T5 v1, v1.1 and Flan-T5 (Raffel et al. 2020): pre-norm, relative bias, unscaled attention."""

import math

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import bart
from txexport.families._config import ACTIVATIONS, Config, TensorNames
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    RelativeSpec,
    StackSpec,
    TextStackSpec,
)


def tasks(name: str) -> dict[str, tuple[str, ...]]:
    """The tasks of a T5 whose classes in transformers begin with `name`."""
    return {
        "text2text-generation": (f"{name}ForConditionalGeneration",),
        "feature-extraction": (f"{name}EncoderModel",),
        "text-classification": (f"{name}ForSequenceClassification",),
        "token-classification": (f"{name}ForTokenClassification",),
        "question-answering": (f"{name}ForQuestionAnswering",),
    }


TASKS = tasks("T5") | {"text2text-generation": ("T5ForConditionalGeneration", "T5WithLMHeadModel")}

NAMING = Naming("transformer.")
HEADS: dict[HeadKind, Rules] = bart.HEADS | {
    HeadKind.CAUSAL_LM: {"head.weight": "lm_head.weight"},
    HeadKind.TOKENS: {"head.*": "classifier.*"},
}
ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture that config.json describes.

    Version 1 scales hidden states before the vocabulary projection, v1.1 does not. Files say so by
    tie_word_embeddings, those of transformers 5 by a key of its own; they all tie unless v1.1 has an lm_head.
    """
    first = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", True))
    config = config.with_defaults(feed_forward_proj="relu")
    return model_spec(config, task, names, first)


def model_spec(
    config: Config, task: str, names: TensorNames, first: bool
) -> EncoderSpec | EncoderDecoderSpec:
    """The architecture of version 1, where `first`, or of v1.1; the encoder alone classifies tokens."""
    config.expect(is_decoder=False, is_causal=True)
    if task in ("feature-extraction", "token-classification"):
        head = HeadSpec()
        if task == "token-classification":
            head = HeadSpec(HeadKind.TOKENS, tied=False, bias=True, labels=config.labels())
        return EncoderSpec(encoder=_stack(config, config.count("num_layers"), decodes=False), head=head)
    both = _encoder_decoder(config, names, first)
    if task == "text2text-generation":
        return both
    return bart.labelled(config.with_defaults(eos_token_id=1), task, both)


def _encoder_decoder(config: Config, names: TensorNames, first: bool) -> EncoderDecoderSpec:
    width, layers = config.integer("d_model"), config.count("num_layers")
    tied, scale = first or "lm_head.weight" not in names, 1 / math.sqrt(width) if first and width > 0 else 1.0
    return EncoderDecoderSpec(
        encoder=_stack(config, layers, decodes=False),
        decoder=_stack(config, config.count("num_decoder_layers", layers), decodes=True),
        head=HeadSpec(HeadKind.CAUSAL_LM, tied=tied, scale=scale),
        shared_embedding=True,
    )


def _stack(config: Config, layers: int, decodes: bool) -> TextStackSpec:
    width, heads, head_dim = config.integer("d_model"), config.integer("num_heads"), config.integer("d_kv")
    norm = NormSpec(width, config.number("layer_norm_epsilon", 1e-6), NormKind.RMS)
    activation, gated = _activation(config)

    def attention(causal: bool, biased: bool) -> AttentionSpec:
        return AttentionSpec(
            width,
            heads,
            heads,
            head_dim,
            causal,
            bias=False,
            output_bias=False,
            scale=1.0,
            has_position_bias=biased,
        )

    block = BlockSpec(
        attention(causal=decodes, biased=True),
        FeedForwardSpec(width, config.integer("d_ff"), activation, bias=False, gated=gated),
        norm,
        NormPlacement.PRE,
        cross_attention=attention(causal=False, biased=False) if decodes else None,
    )
    relative = RelativeSpec(
        config.integer("relative_attention_num_buckets", 32),
        config.integer("relative_attention_max_distance", 128),
        bidirectional=not decodes,
    )
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, PositionSpec(PositionKind.NONE))
    return TextStackSpec(embedding, (block,), layers, final_norm=norm, relative=relative)


def _activation(config: Config) -> tuple[Activation, bool]:
    """The activation, and whether it is gated, by feed_forward_proj.

    "gated-gelu" means gelu_new. dense_act_fn and is_gated_act take precedence where present.
    """
    name = config.text("feed_forward_proj")
    gated, kind = name.startswith("gated-"), name.removeprefix("gated-")
    if "-" in kind or kind not in ACTIVATIONS:
        raise UnsupportedError(f"{config.path}: feed_forward_proj '{name}' is not supported")
    config = config.with_defaults(
        is_gated_act=gated, dense_act_fn="gelu_new" if name == "gated-gelu" else kind
    )
    return config.activation("dense_act_fn"), config.flag("is_gated_act")


def _gated(stack: StackSpec) -> bool:
    feed_forward = stack.blocks[0].feed_forward
    return isinstance(feed_forward, FeedForwardSpec) and feed_forward.gated


def table(spec: EncoderSpec | EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    words = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    words += ["lm_head.weight"] * (spec.generates and spec.head.tied)
    cross = "decoder.block.{i}.layer.1"
    rules: Rules = {
        "encoder.embedding.word.weight": Take("shared.weight", also=tuple(words)),
        **HEADS.get(spec.head.kind, {}),
        "cross.{i}.k.*": f"{cross}.EncDecAttention.k.*",
        "cross.{i}.v.*": f"{cross}.EncDecAttention.v.*",
        "decoder.layers.{i}.cross_attention.q.*": f"{cross}.EncDecAttention.q.*",
        "decoder.layers.{i}.cross_attention.o.*": f"{cross}.EncDecAttention.o.*",
        "decoder.layers.{i}.cross_attention_norm.*": f"{cross}.layer_norm.*",
    }
    for side, stack in spec.stacks.items():
        last = 2 if side == "decoder" else 1
        layer, source = f"{side}.layers.{{i}}", f"{side}.block.{{i}}.layer"
        dense, own = f"{source}.{last}.DenseReluDense", f"{side}.block.0.layer.0.SelfAttention"
        rules |= {
            f"{side}.relative.weight": f"{own}.relative_attention_bias.weight",
            f"{side}.relative.{{i}}.*": f"{source}.0.SelfAttention.relative_attention_bias.*",
            f"{layer}.attention.q.*": f"{source}.0.SelfAttention.q.*",
            f"{layer}.attention.k.*": f"{source}.0.SelfAttention.k.*",
            f"{layer}.attention.v.*": f"{source}.0.SelfAttention.v.*",
            f"{layer}.attention.o.*": f"{source}.0.SelfAttention.o.*",
            f"{layer}.attention_norm.*": f"{source}.0.layer_norm.*",
            f"{layer}.feed_forward.gate.*": f"{dense}.wi_0.*",
            f"{layer}.feed_forward.up.*": f"{dense}.wi_1.*" if _gated(stack) else f"{dense}.wi.*",
            f"{layer}.feed_forward.down.*": f"{dense}.wo.*",
            f"{layer}.feed_forward_norm.*": f"{source}.{last}.layer_norm.*",
            f"{side}.final_norm.*": f"{side}.final_layer_norm.*",
        }
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"  # of the first releases
    other = () if spec.generates else ("lm_head.*",)
    drop = ("decoder.*" if isinstance(spec, EncoderSpec) else unused, *other)
    return Table(rules, NAMING, (*drop, "classification_head.*", "classifier.*", "qa_outputs.*"))
