"""Generation of text from texts, speech and images, and recognition of speech without generation."""

from txexport.spec import Architecture, HeadKind
from txexport.tasks.task import CACHED, TRANSCRIPT, Method, Task

STREAMS = ("stream", "score", "chat")

METHODS = (
    Method("generate", ("text",), "generated", "string", first_place=True, endpoint="/v1/completions"),
    Method(
        "transcribe",
        ("sound",),
        "transcript",
        "string",
        first_place=True,
        endpoint="/v1/audio/transcriptions",
        timed_type=TRANSCRIPT,
    ),
    Method("image_to_text", ("image",), "generated", "string", first_place=True),
    Method("ask_image", ("image",), "answered", "string", first_place=True),
)
ROWS = (
    Task(
        "text-generation",
        (Architecture.DECODER,),
        HeadKind.CAUSAL_LM,
        "AutoModelForCausalLM",
        ("generate",),
        CACHED,
        related=STREAMS,
    ),
    Task(
        "text2text-generation",
        (Architecture.ENCODER_DECODER,),
        HeadKind.CAUSAL_LM,
        "AutoModelForSeq2SeqLM",
        ("generate",),
        CACHED,
        related=("stream", "score"),
    ),
    Task(
        "automatic-speech-recognition",
        (Architecture.ENCODER_DECODER,),
        HeadKind.CAUSAL_LM,
        "AutoModelForSpeechSeq2Seq",
        ("transcribe", "generate"),
        CACHED,
    ),
    Task(
        "automatic-speech-recognition",
        (Architecture.ENCODER,),
        HeadKind.CTC,
        "AutoModelForCTC",
        ("transcribe",),
    ),
    Task(
        "image-to-text",
        (Architecture.ENCODER_DECODER,),
        HeadKind.CAUSAL_LM,
        "AutoModelForImageTextToText",
        ("image_to_text", "generate"),
        CACHED,
    ),
    Task(
        "image-text-to-text",
        (Architecture.VISION_LANGUAGE, Architecture.CROSS_VISION_LANGUAGE),
        HeadKind.CAUSAL_LM,
        "AutoModelForImageTextToText",
        ("generate", "ask_image"),
        CACHED,
        related=("stream", "chat"),
    ),
    Task(
        "image-text-to-text",
        (Architecture.ENCODER_DECODER,),
        HeadKind.CAUSAL_LM,
        "AutoModelForImageTextToText",
        ("generate", "ask_image"),
        CACHED,
        auto_classes={"blip": "AutoModelForVisualQuestionAnswering"},
    ),
    Task(
        "audio-text-to-text",
        (Architecture.VISION_LANGUAGE,),
        HeadKind.CAUSAL_LM,
        "AutoModelForSeq2SeqLM",
        ("generate",),
        CACHED,
        related=("stream", "chat"),
    ),
)
