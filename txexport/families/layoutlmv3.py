"""LayoutLMv3 (Huang et al. 2022): RoBERTa over the words of a page and the patches of its image.

The paper's code takes the softmax of scores less their largest, after a division (PB-relax of CogView, Ding
et al. 2021, 2.4), which changes no number but for rounding; transformers does not.
"""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import bert, layoutlm, vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    BoxTablesSpec,
    DocumentSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PageBiasSpec,
    PageImageSpec,
    PatchSpec,
    PositionKind,
    PositionSpec,
    RelativeSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("LayoutLMv3Model",),
    "text-classification": ("LayoutLMv3ForSequenceClassification",),
    "token-classification": ("LayoutLMv3ForTokenClassification",),
    "document-question-answering": ("LayoutLMv3ForQuestionAnswering",),
}
NAMING = Naming("layoutlmv3.", {".gamma": ".weight", ".beta": ".bias"})

FEW = 10  # labels of tokens, from which on their head has a dense layer
LONGEST = 1023  # the largest height and width of a box that the original looks up


def spec(config: Config, task: str, names: TensorNames) -> DocumentSpec:
    """The architecture that config.json describes."""
    config.expect(text_embed=True)
    width, heads = config.integer("hidden_size", 768), config.integer("num_attention_heads", 12)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-5))
    relative = _relative(config, config.head_dim(width, heads))
    padding = config.integer("pad_token_id", 1)
    rows = config.integer("max_2d_position_embeddings", 1024)
    edge, extent = config.integer("coordinate_size", 128), config.integer("shape_size", 128)
    embedding = EmbeddingSpec(
        vocab_size=config.integer("vocab_size", 50265),
        hidden_size=width,
        position=PositionSpec(
            PositionKind.LEARNED,
            config.integer("max_position_embeddings", 512),
            offset=padding,
            pad_token_id=padding,
        ),
        type_vocab_size=config.integer("type_vocab_size", 2),
        norm=norm,
        boxes=BoxTablesSpec(rows, edge, extent, joined=True, longest=min(LONGEST, rows - 1)),
        page=_page(config, norm) if config.flag("visual_embed", True) else None,
    )
    biased = relative is not None
    block = BlockSpec(
        AttentionSpec(
            width, heads, heads, config.head_dim(width, heads), causal=False, has_position_bias=biased
        ),
        FeedForwardSpec(
            width, config.integer("intermediate_size", 3072), config.activation("hidden_act", "gelu")
        ),
        norm,
        NormPlacement.POST,
    )
    layers = config.count("num_hidden_layers", 12)
    stack = TextStackSpec(embedding, (block,), layers, relative=relative)
    return DocumentSpec(stack, _head(config, task))


def _relative(config: Config, head_dim: int) -> PageBiasSpec | None:
    """The biases of distances. The original reads those of boxes beside those of order alone."""
    if not config.flag("has_relative_attention_bias", True):
        return None
    order = RelativeSpec(config.integer("rel_pos_bins", 32), config.integer("max_rel_pos", 128), True)
    edges = None
    if config.flag("has_spatial_attention_bias", True):
        bins, distance = config.integer("rel_2d_pos_bins", 64), config.integer("max_rel_2d_pos", 256)
        edges = RelativeSpec(bins, distance, True)
    return PageBiasSpec(order, edges, head_dim**-0.5)


def _page(config: Config, norm: NormSpec) -> PageImageSpec:
    """The patches of the page's image, each normalised, and then all with the words."""
    side = config.integer("input_size", 224)
    patches = PatchSpec(
        hidden_size=norm.size,
        image_size=(side, side),
        patch_size=vit.patch_size(config),
        channels=config.integer("num_channels", 3),
        norm=NormSpec(norm.size, 1e-6),
    )
    return PageImageSpec(patches, norm)


def _head(config: Config, task: str) -> HeadSpec:
    """The head of a task: a projection, behind a dense layer but for few labels of tokens."""
    if task == "feature-extraction":
        return HeadSpec()
    head = bert.label_head(config, task, Activation.TANH)
    few = head.kind == HeadKind.TOKENS and head.labels < FEW
    return replace(head, activation=None if few else Activation.TANH)


def table(spec: DocumentSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules = bert.stack_rules() | layoutlm.box_rules("embeddings") | _page_rules() | _bias_rules()
    rules.pop("pooler.dense.*")
    drop = ("embeddings.position_ids", "visual_bbox", "classifier.*", "qa_outputs.*", "encoder.rel_pos_*")
    return Table(rules | _head_rules(spec), NAMING, drop)


def _page_rules() -> Rules:
    owner = "encoder.embedding.page"
    return {
        f"{owner}.patches.tokens.0.weight": Take("cls_token", leading_axis=True),
        f"{owner}.patches.position.weight": Take("pos_embed", leading_axis=True),
        f"{owner}.patches.project.*": "patch_embed.proj.*",
        f"{owner}.patches.norm.*": "norm.*",
        f"{owner}.norm.*": "LayerNorm.*",
    }


def _bias_rules() -> Rules:
    names = {"order": "rel_pos_bias", "left": "rel_pos_x_bias", "bottom": "rel_pos_y_bias"}
    return {
        f"encoder.relative.{table}.weight": Take(f"encoder.{name}.weight", transpose=True)
        for table, name in names.items()
    }


def _head_rules(spec: DocumentSpec) -> Rules:
    owner = "qa_outputs" if spec.head.kind == HeadKind.SPANS else "classifier"
    if spec.head.kind == HeadKind.NONE:
        return {}
    if spec.head.activation is None:
        return {"head.*": f"{owner}.*"}
    return {"head.dense.*": f"{owner}.dense.*", "head.*": f"{owner}.out_proj.*"}
