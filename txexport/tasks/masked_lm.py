"""BERT's pretraining tasks: masked tokens and next sentences, alone or together."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import Method, Task

METHODS = (
    Method(  # a list of tokens for each mask
        "fill_mask",
        ("text",),
        "words",
        "array<array<struct<score:double,token:bigint,token_str:string,sequence:string>>>",
    ),
    Method("next_sentence", ("first", "second"), "probability", "double"),
)
ROWS = (
    Task("fill-mask", (Architecture.ENCODER,), HeadKind.MASKED_LM, "AutoModelForMaskedLM", ("fill_mask",)),
    Task(
        "next-sentence-prediction",
        (Architecture.ENCODER,),
        HeadKind.SEQUENCE,
        "AutoModelForNextSentencePrediction",
        ("next_sentence",),
    ),
    Task(
        "pretraining",
        (Architecture.ENCODER,),
        HeadKind.MASKED_LM,
        "AutoModelForPreTraining",
        ("fill_mask", "next_sentence"),
    ),
)
