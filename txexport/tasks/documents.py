"""Words in their boxes on a page: vectors, labels of words and of pages, answers."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import LABELS, VECTORS, Method, Task

METHODS = (
    Method("embed_words", ("page",), "embeddings", VECTORS),
    Method("tag_words", ("page",), "words", "array<struct<word:string,label:string,score:double>>"),
    Method("classify_page", ("page",), "labels", LABELS),
    Method(
        "answer_page",
        ("question", "page"),
        "answers",
        "array<struct<score:double,start:bigint,end:bigint,answer:string>>",
    ),
)
DOCUMENT = (Architecture.DOCUMENT,)
ROWS = (
    Task("feature-extraction", DOCUMENT, HeadKind.NONE, "AutoModel", ("embed_words",)),
    Task(
        "text-classification",
        DOCUMENT,
        HeadKind.SEQUENCE,
        "AutoModelForSequenceClassification",
        ("classify_page",),
    ),
    Task(
        "token-classification",
        DOCUMENT,
        HeadKind.TOKENS,
        "AutoModelForTokenClassification",
        ("tag_words",),
    ),
    Task(
        "document-question-answering",
        DOCUMENT,
        HeadKind.SPANS,
        "AutoModelForDocumentQuestionAnswering",
        ("answer_page",),
        auto_classes={"lilt": "AutoModelForQuestionAnswering"},
    ),
)
