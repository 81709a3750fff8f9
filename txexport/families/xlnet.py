"""XLNet (Yang et al. 2019): encoder with relative positions and segments, in the order of the tokens.

The language model head predicts in a permutation that the caller passes, by a second stream: of a checkpoint
with that head the hidden states are exported.
"""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families._config import Config, TensorNames
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    Activation,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    Pick,
    PositionKind,
    PositionSpec,
    SinusoidVectorsSpec,
    TextStackSpec,
    TransformerXLAttentionSpec,
)
from txexport.tasks import TASKS as EVERY

TASKS = {
    "feature-extraction": ("XLNetModel", "XLNetLMHeadModel"),
    "text-classification": ("XLNetForSequenceClassification",),
    "token-classification": ("XLNetForTokenClassification",),
    "question-answering": ("XLNetForQuestionAnsweringSimple",),
}

NAMING = Naming("transformer.", {".gamma": ".weight", ".beta": ".bias"})
ALIASES = {
    "n_token": "vocab_size",
    "hidden_size": "d_model",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
REFUSED = {
    "XLNetForQuestionAnswering": "it finds answers by beam search, and has no scores for every token",
}
BASE = 10000.0  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(attn_type="bi", bi_data=False)
    width, heads = config.integer("d_model"), config.integer("n_head")
    head_dim, clamp = config.head_dim(width, heads), config.integer("clamp_len", -1)
    config.check_width("a vector of distances", width)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    block = BlockSpec(
        TransformerXLAttentionSpec(width, heads, head_dim),
        FeedForwardSpec(width, config.integer("d_inner"), config.activation("ff_activation", "gelu")),
        norm,
        NormPlacement.POST,
    )
    stack = TextStackSpec(
        EmbeddingSpec(config.integer("vocab_size"), width, PositionSpec(PositionKind.NONE)),
        (block,),
        config.count("n_layer"),
        relative=SinusoidVectorsSpec(plain_frequencies(BASE, width), clamp if clamp > 0 else None),
    )
    kind = EVERY[task].head
    return EncoderSpec(encoder=stack, head=HeadSpec() if kind == HeadKind.NONE else _labels(config, kind))


def _labels(config: Config, kind: HeadKind) -> HeadSpec:
    """A head of labels.

    A sequence's vector is that of its last position, since the tokenizer pads on the left.
    """
    if kind != HeadKind.SEQUENCE:
        return HeadSpec(kind, tied=False, bias=True, labels=config.labels())
    config.expect(summary_type="last", summary_use_proj=True, summary_activation="tanh")
    return HeadSpec(
        kind=kind,
        tied=False,
        bias=True,
        activation=Activation.TANH,
        labels=config.labels(),
        pick=Pick.LAST_UNMASKED,
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; heads have an axis of their own."""
    layer, source = "encoder.layers.{i}", "layer.{i}"
    attention = spec.encoder.blocks[0].attention
    assert isinstance(attention, TransformerXLAttentionSpec)
    heads = attention.num_heads, attention.head_dim

    def inputs(name: str) -> Take:
        return Take(f"{source}.rel_attn.{name}", transpose=True, apart=heads)

    def by_head(name: str) -> Take:
        return Take(f"{source}.rel_attn.{name}", apart=heads)

    rules: Rules = {
        "encoder.embedding.word.weight": "word_embedding.weight",
        f"{layer}.attention.q.weight": inputs("q"),
        f"{layer}.attention.k.weight": inputs("k"),
        f"{layer}.attention.v.weight": inputs("v"),
        f"{layer}.attention.k_position.weight": inputs("r"),
        f"{layer}.attention.o.weight": by_head("o"),
        f"{layer}.attention.content_bias": by_head("r_w_bias"),
        f"{layer}.attention.position_bias": by_head("r_r_bias"),
        f"{layer}.attention.segment_bias": by_head("r_s_bias"),
        f"{layer}.attention.segment.weight": by_head("seg_embed"),
        f"{layer}.attention_norm.*": f"{source}.rel_attn.layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{source}.ff.layer_1.*",
        f"{layer}.feed_forward.down.*": f"{source}.ff.layer_2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.ff.layer_norm.*",
    }
    head: dict[HeadKind, Rules] = {
        HeadKind.SEQUENCE: {"head.dense.*": "sequence_summary.summary.*", "head.*": "logits_proj.*"},
        HeadKind.TOKENS: {"head.*": "classifier.*"},
        HeadKind.SPANS: {"head.*": "qa_outputs.*"},
    }
    drop = ("mask_emb", "lm_loss.*", "sequence_summary.*", "logits_proj.*", "classifier.*", "qa_outputs.*")
    return Table(rules | head.get(spec.head.kind, {}), NAMING, drop)
