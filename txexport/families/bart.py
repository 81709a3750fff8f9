"""BART (Lewis et al. 2020): post-norm encoder-decoder, learned positions with an offset of 2."""

import math
from collections.abc import Mapping
from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    Pick,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "text2text-generation": ("BartForConditionalGeneration", "BartModel"),
    "text-classification": ("BartForSequenceClassification",),
    "question-answering": ("BartForQuestionAnswering",),
}

NAMING = Naming("model.")
ALIASES = {
    "num_attention_heads": "encoder_attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
}
EPS, OFFSET = 1e-5, 2  # fixed in the original, not in config.json
SIDES = ("encoder", "decoder")
HEADS: dict[HeadKind, Rules] = {
    HeadKind.CAUSAL_LM: {
        "head.weight": "lm_head.weight",
        "head.bias": Take("final_logits_bias", leading_axis=True),
    },
    HeadKind.SEQUENCE: {
        "head.dense.*": "classification_head.dense.*",
        "head.*": "classification_head.out_proj.*",
    },
    HeadKind.SPANS: {"head.*": "qa_outputs.*"},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderDecoderSpec:
    """The architecture that config.json describes."""
    config.expect(
        is_decoder=False,
        add_bias_logits=False,
        add_final_layer_norm=False,
        normalize_before=False,
        normalize_embedding=True,
        static_position_embeddings=False,
        extra_pos_embeddings=OFFSET,
    )
    base = encoder_decoder_spec(config, names, NormPlacement.POST)
    if task == "text2text-generation":
        return base
    return labelled(config.with_defaults(eos_token_id=2, decoder_start_token_id=2), task, base)


def labelled(config: Config, task: str, base: EncoderDecoderSpec) -> EncoderDecoderSpec:
    """`base` under a head of labels or spans; the decoder reads the encoder's tokens, shifted right (3.1)."""
    head = HeadSpec(HeadKind.SPANS, tied=False, bias=True, labels=2)
    if task == "text-classification":
        head = HeadSpec(
            HeadKind.SEQUENCE,
            tied=False,
            bias=True,
            activation=Activation.TANH,
            labels=config.labels(),
            pick=Pick.LAST_EOS,
            eos_token_id=config.integer("eos_token_id"),
        )
    return replace(base, head=head, decoder_start_token_id=config.integer("decoder_start_token_id"))


def encoder_decoder_spec(
    config: Config,
    names: TensorNames,
    placement: NormPlacement,
    *,
    positions: Mapping[str, PositionSpec] | None = None,
    normed: bool = True,
    shared: bool = True,
) -> EncoderDecoderSpec:
    """BART's architecture with the options of its descendants.

    `positions` are those of "encoder" and "decoder"; `normed` adds a norm of the embedding; `shared` says
    that one word embedding serves both sides where it is tied.
    """
    config.expect(is_causal=True)
    tied = config.flag("tie_word_embeddings", True)
    if positions is None:
        size = config.integer("max_position_embeddings") + OFFSET
        positions = dict.fromkeys(SIDES, PositionSpec(PositionKind.LEARNED, size, OFFSET))
    encoder, decoder = (stack_spec(config, side, placement, positions[side], normed) for side in SIDES)
    return EncoderDecoderSpec(
        encoder=encoder,
        decoder=decoder,
        head=HeadSpec(HeadKind.CAUSAL_LM, tied=tied, bias="final_logits_bias" in names),
        shared_embedding=tied and shared,
    )


def stack_spec(
    config: Config, side: str, placement: NormPlacement, position: PositionSpec, normed: bool
) -> TextStackSpec:
    """The stack of one side; the decoder's has cross-attention."""
    width, heads = config.integer("d_model"), config.integer(f"{side}_attention_heads")
    head_dim, norm = config.head_dim(width, heads), NormSpec(width, EPS)
    vocab_size = config.integer("vocab_size")
    embedding = EmbeddingSpec(
        vocab_size=config.integer("decoder_vocab_size", vocab_size) if side == "decoder" else vocab_size,
        hidden_size=width,
        position=position,
        norm=norm if normed else None,
        scale=math.sqrt(width) if config.flag("scale_embedding", False) else 1.0,
    )
    decodes, activation = side == "decoder", config.activation("activation_function", "gelu")
    cross = AttentionSpec(width, heads, heads, head_dim, causal=False)
    block = BlockSpec(
        AttentionSpec(width, heads, heads, head_dim, causal=decodes),
        FeedForwardSpec(width, config.integer(f"{side}_ffn_dim"), activation),
        norm,
        placement,
        cross_attention=cross if decodes else None,
    )
    final = None if placement == NormPlacement.POST else norm
    return TextStackSpec(embedding, (block,), config.count(f"{side}_layers"), final_norm=final)


def stack_rules(side: str) -> Rules:
    """Tensor names of one side's stack, without cross-attention."""
    layer = f"{side}.layers.{{i}}"
    return {
        f"{side}.embedding.word.weight": Take(f"{side}.embed_tokens.weight", fallback="shared.weight"),
        f"{side}.embedding.position.*": f"{side}.embed_positions.*",
        f"{side}.embedding.norm.*": f"{side}.layernorm_embedding.*",
        f"{side}.final_norm.*": f"{side}.layer_norm.*",
        f"{layer}.attention.q.*": f"{layer}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": f"{layer}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": f"{layer}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": f"{layer}.self_attn.out_proj.*",
        f"{layer}.attention_norm.*": f"{layer}.self_attn_layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{layer}.fc1.*",
        f"{layer}.feed_forward.down.*": f"{layer}.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{layer}.final_layer_norm.*",
    }


def table(spec: EncoderDecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        "cross.{i}.k.*": "decoder.layers.{i}.encoder_attn.k_proj.*",
        "cross.{i}.v.*": "decoder.layers.{i}.encoder_attn.v_proj.*",
        "decoder.layers.{i}.cross_attention.q.*": "decoder.layers.{i}.encoder_attn.q_proj.*",
        "decoder.layers.{i}.cross_attention.o.*": "decoder.layers.{i}.encoder_attn.out_proj.*",
        "decoder.layers.{i}.cross_attention_norm.*": "decoder.layers.{i}.encoder_attn_layer_norm.*",
        **HEADS[spec.head.kind],
    }
    for side in SIDES:
        rules |= stack_rules(side)
    if spec.shared_embedding:
        copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
        rules["encoder.embedding.word.weight"] = Take("shared.weight", also=copies)
    other = () if spec.generates else ("lm_head.*", "final_logits_bias")
    drop = ("encoder.version", "decoder.version", "classification_head.*", "qa_outputs.*", *other)
    return Table(rules, NAMING, drop)
