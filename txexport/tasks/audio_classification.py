"""Labels of recordings and of their vectors, and vectors of recordings and speakers."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import LABELS, VECTOR, Method, Task

METHODS = (
    Method("classify_audio", ("sound",), "labels", LABELS),
    Method(
        "diarize",
        ("sound",),
        "turns",
        "array<struct<label:string,score:double,start:double,end:double>>",
    ),
    Method("embed_speaker", ("sound",), "embedding", VECTOR),
    Method("embed_audio", ("sound",), "embedding", VECTOR),
    Method("match_audio", ("sound",), "labels", LABELS),
)
ROWS = (
    Task(
        "audio-classification",
        (Architecture.ENCODER,),
        HeadKind.SEQUENCE,
        "AutoModelForAudioClassification",
        ("classify_audio",),
    ),
    Task(
        "audio-frame-classification",
        (Architecture.ENCODER,),
        HeadKind.TOKENS,
        "AutoModelForAudioFrameClassification",
        ("diarize",),
    ),
    Task(
        "audio-xvector",
        (Architecture.ENCODER,),
        HeadKind.SPEAKER,
        "AutoModelForAudioXVector",
        ("embed_speaker",),
    ),
    Task(
        "zero-shot-audio-classification",
        (Architecture.DUAL_ENCODER,),
        HeadKind.NONE,
        "AutoModel",
        ("match_audio", "embed_audio", "embed"),
    ),
)
