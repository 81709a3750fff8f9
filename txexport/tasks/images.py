"""Image classification, image vectors, and zero-shot classification with two encoders."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import LABELS, VECTOR, Method, Task

METHODS = (
    Method("embed_image", ("image",), "embedding", VECTOR),
    Method("classify_image", ("image",), "labels", LABELS),
    Method("match", ("image",), "labels", LABELS),
)
ROWS = (
    Task("image-feature-extraction", (Architecture.ENCODER,), HeadKind.NONE, "AutoModel", ("embed_image",)),
    Task(
        "image-classification",
        (Architecture.ENCODER,),
        HeadKind.SEQUENCE,
        "AutoModelForImageClassification",
        ("classify_image",),
    ),
    Task(
        "zero-shot-image-classification",
        (Architecture.DUAL_ENCODER,),
        HeadKind.NONE,
        "AutoModelForZeroShotImageClassification",
        ("match", "embed_image", "embed"),
    ),
)
