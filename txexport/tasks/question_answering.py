"""Question answering: spans of a context, or one of several choices."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import GlobalTokens, Method, Task

METHODS = (
    Method(
        "answer",
        ("question", "context"),
        "answers",
        "array<struct<score:double,start:bigint,end:bigint,answer:string>>",
    ),
    Method("choose", ("question", "choices"), "probabilities", "array<double>"),
)
ROWS = (
    Task(
        "question-answering",
        (Architecture.ENCODER, Architecture.ENCODER_DECODER),
        HeadKind.SPANS,
        "AutoModelForQuestionAnswering",
        ("answer",),
        global_tokens=GlobalTokens.QUESTION,
    ),
    Task(
        "multiple-choice",
        (Architecture.ENCODER,),
        HeadKind.CHOICES,
        "AutoModelForMultipleChoice",
        ("choose",),
        global_tokens=GlobalTokens.CHOICE,
    ),
)
