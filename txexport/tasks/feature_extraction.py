"""Feature extraction: vectors of texts, or of every token for late interaction."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import VECTOR, Method, Task

# The methods of a checkpoint for late interaction, as ColBERT, instead of `embed`.
LATE_INTERACTION = ("embed_tokens", "rerank")
# Model types whose AutoModel would load the decoder too.
ENCODERS = dict.fromkeys(("t5", "mt5", "umt5", "t5gemma"), "AutoModelForTextEncoding")
ENCODERS["switch_transformers"] = "SwitchTransformersEncoderModel"  # which no AutoModel loads

METHODS = (Method("embed", ("text",), "embedding", VECTOR),)
ROWS = (
    Task(
        "feature-extraction",
        (Architecture.ENCODER,),
        HeadKind.NONE,
        "AutoModel",
        ("embed",),
        auto_classes=ENCODERS,
        related=LATE_INTERACTION,
    ),
)
