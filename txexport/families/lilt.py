"""LiLT (Wang et al. 2022): RoBERTa over the words of a page, beside a narrower flow of their boxes."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AttentionSpec,
    BoxTablesSpec,
    DocumentSpec,
    FeedForwardSpec,
    HeadKind,
    LayoutEmbeddingSpec,
    LayoutFlowSpec,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("LiltModel",),
    "text-classification": ("LiltForSequenceClassification",),
    "token-classification": ("LiltForTokenClassification",),
    "document-question-answering": ("LiltForQuestionAnswering",),
}
NAMING = Naming("lilt.", {".gamma": ".weight", ".beta": ".bias"})

HEADS: dict[HeadKind, Rules] = {
    HeadKind.SPANS: {"head.*": "qa_outputs.*"},
    HeadKind.TOKENS: {"head.*": "classifier.*"},
    HeadKind.SEQUENCE: {"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
}
PARTS = 6  # vectors of a box, together as wide as a word's


def spec(config: Config, task: str, names: TensorNames) -> DocumentSpec:
    """The architecture that config.json describes."""
    padding, size = config.integer("pad_token_id", 0), config.integer("max_position_embeddings", 512)
    position = PositionSpec(PositionKind.LEARNED, size, offset=padding, pad_token_id=padding)
    model = bert.encoder_spec(config, task, names, position, Activation.GELU)
    assert isinstance(model.encoder, TextStackSpec)
    return DocumentSpec(_with_layout(config, model.encoder), model.head, model.pooler)


def _with_layout(config: Config, stack: TextStackSpec) -> TextStackSpec:
    """The stack of words beside the flow of layout, each of whose widths is a part of theirs."""
    [block], ratio = stack.blocks, config.integer("channel_shrink_ratio", 4)
    width, attention, network = stack.hidden_size, block.dense, block.feed_forward
    assert isinstance(network, FeedForwardSpec)
    if ratio < 1 or attention.head_dim % ratio or width % PARTS:
        raise UnsupportedError(
            f"{config.path}: hidden_size={width}, num_attention_heads={attention.num_heads} and "
            f"channel_shrink_ratio={ratio}; expected a width that {PARTS} divides, and heads that "
            "channel_shrink_ratio divides"
        )
    norm = NormSpec(width // ratio, block.norm.eps)
    rows, part = config.integer("max_2d_position_embeddings", 1024), width // PARTS
    boxes = BoxTablesSpec(rows, part, part, joined=True)
    heads, head_dim = attention.num_heads, attention.head_dim // ratio
    flow = LayoutFlowSpec(
        AttentionSpec(norm.size, heads, heads, head_dim, causal=False),
        FeedForwardSpec(norm.size, network.intermediate_size // ratio, network.activation),
        norm,
    )
    middle, last = replace(block, layout=flow), replace(block, layout=replace(flow, feed_forward=None))
    layout = LayoutEmbeddingSpec(boxes, stack.embedding.position, norm)
    return replace(stack, blocks=(*[middle] * (stack.num_layers - 1), last), layout=layout)


def table(spec: DocumentSpec) -> Table:
    """Map parameters to the tensor names of transformers. Nothing reads the layout of the last layer."""
    owner, tables = "encoder.layout", {"x": "x", "y": "y", "height": "h", "width": "w"}
    rules = bert.stack_rules() | HEADS.get(spec.head.kind, {})
    rules |= {
        f"{owner}.boxes.{name}.*": f"layout_embeddings.{letter}_position_embeddings.*"
        for name, letter in tables.items()
    }
    rules |= {
        f"{owner}.project.*": "layout_embeddings.box_linear_embeddings.*",
        f"{owner}.position.*": "layout_embeddings.box_position_embeddings.*",
        f"{owner}.norm.*": "layout_embeddings.LayerNorm.*",
    }
    flow, source = f"{bert.LAYER}.layout", bert.SOURCE
    rules |= {
        f"{flow}.attention.q.*": f"{source}.attention.self.layout_query.*",
        f"{flow}.attention.k.*": f"{source}.attention.self.layout_key.*",
        f"{flow}.attention.v.*": f"{source}.attention.self.layout_value.*",
        f"{flow}.attention.o.*": f"{source}.attention.layout_output.dense.*",
        f"{flow}.attention_norm.*": f"{source}.attention.layout_output.LayerNorm.*",
        f"{flow}.feed_forward.up.*": f"{source}.layout_intermediate.dense.*",
        f"{flow}.feed_forward.down.*": f"{source}.layout_output.dense.*",
        f"{flow}.feed_forward_norm.*": f"{source}.layout_output.LayerNorm.*",
    }
    last = f"encoder.layer.{spec.encoder.num_layers - 1}"
    unread = ("attention.self.layout_value.*", "attention.layout_output.*", "layout_*")
    drop = "embeddings.position_ids", "pooler.*", "classifier.*", "qa_outputs.*"
    return Table(rules, NAMING, (*drop, *(f"{last}.{name}" for name in unread)))
