"""Audio classification."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import LABELS, Method, Task

METHODS = (Method("classify_audio", ("sound",), "labels", LABELS),)
ROWS = (
    Task(
        "audio-classification",
        (Architecture.ENCODER,),
        HeadKind.SEQUENCE,
        "AutoModelForAudioClassification",
        ("classify_audio",),
    ),
)
