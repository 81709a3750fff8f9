"""LayoutLM (Xu et al. 2020): BERT over the words of a page, with vectors of their boxes."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BoxTablesSpec,
    DocumentSpec,
    HeadKind,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("LayoutLMModel",),
    "text-classification": ("LayoutLMForSequenceClassification",),
    "token-classification": ("LayoutLMForTokenClassification",),
    "document-question-answering": ("LayoutLMForQuestionAnswering",),
}
NAMING = Naming("layoutlm.", {".gamma": ".weight", ".beta": ".bias"})


def spec(config: Config, task: str, names: TensorNames) -> DocumentSpec:
    """The architecture that config.json describes."""
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings", 512))
    model = bert.encoder_spec(config, task, names, position, config.activation("hidden_act", "gelu"))
    assert isinstance(model.encoder, TextStackSpec)
    rows, width = config.integer("max_2d_position_embeddings", 1024), model.encoder.hidden_size
    embedding = replace(model.encoder.embedding, boxes=BoxTablesSpec(rows, width, width))
    return DocumentSpec(replace(model.encoder, embedding=embedding), model.head, model.pooler)


def table(spec: DocumentSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    drop = ("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*")
    return Table(bert.stack_rules() | box_rules("embeddings") | head_rules(spec), NAMING, drop)


def box_rules(owner: str) -> Rules:
    """The tables of boxes, which a checkpoint has under `owner`."""
    names = {"x": "x", "y": "y", "height": "h", "width": "w"}
    return {
        f"encoder.embedding.boxes.{table}.*": f"{owner}.{name}_position_embeddings.*"
        for table, name in names.items()
    }


def head_rules(spec: DocumentSpec) -> Rules:
    """Tensor names of the spec's head."""
    rules: dict[HeadKind, Rules] = {
        HeadKind.SPANS: {"head.*": "qa_outputs.*"},
        HeadKind.TOKENS: {"head.*": "classifier.*"},
        HeadKind.SEQUENCE: bert.POOLED,
    }
    return rules.get(spec.head.kind, {})
