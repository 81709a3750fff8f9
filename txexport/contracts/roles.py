"""The graphs that a model is made of, by what each is for, and their files."""

from txexport.spec import DualEncoderSpec, EncoderDecoderSpec, ModelSpec

MODEL = "model"  # alone: an encoder, or a decoder
ENCODER = "encoder_model"
DECODER = "decoder_model"
TEXT = "text_model"
VISION = "vision_model"
SIMILARITY = "similarity_model"

# Other tools write a decoder behind an encoder twice, without a cache and with one, or both in one graph.
DECODER_WITH_PAST = "decoder_with_past_model"
DECODER_MERGED = "decoder_model_merged"

READERS = frozenset({MODEL, ENCODER, TEXT, VISION})  # which are given what a person has

SUFFIX = ".onnx"


def file(role: str) -> str:
    """The name of a graph's file."""
    return f"{role}{SUFFIX}"


def of(spec: ModelSpec) -> tuple[str, ...]:
    """The graphs of a bundle with a model of that spec."""
    if isinstance(spec, DualEncoderSpec):
        return TEXT, VISION, SIMILARITY
    if isinstance(spec, EncoderDecoderSpec) and spec.generates:
        return ENCODER, DECODER
    return (MODEL,)
