"""Token classification: entities of texts."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import Method, Task

METHODS = (
    Method(
        "tag",
        ("text",),
        "entities",
        "array<struct<label:string,score:double,word:string,start:bigint,end:bigint>>",
    ),
)
ROWS = (
    Task(
        "token-classification",
        (Architecture.ENCODER,),
        HeadKind.TOKENS,
        "AutoModelForTokenClassification",
        ("tag",),
    ),
)
