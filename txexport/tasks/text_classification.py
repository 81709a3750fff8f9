"""Text classification: labels, zero-shot labels by inference, and reranking by a cross-encoder."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import LABELS, GlobalTokens, Method, Task

METHODS = (
    Method("classify", ("text",), "labels", LABELS, pairs=True),
    Method("zero_shot", ("text",), "labels", LABELS, crossed=True),
    Method(
        "rerank",
        ("query",),
        "ranking",
        "array<struct<corpus_id:bigint,score:double,text:string>>",
        crossed=True,
    ),
)
ROWS = (
    Task(
        "text-classification",
        (Architecture.ENCODER, Architecture.ENCODER_DECODER),
        HeadKind.SEQUENCE,
        "AutoModelForSequenceClassification",
        ("classify", "zero_shot", "rerank"),
        global_tokens=GlobalTokens.FIRST,
    ),
)
