"""Images that an encoder of texts reads: among its tokens, or beside them by cross-attention."""

from txexport.contracts import names, roles
from txexport.contracts.contract import Port, Signature, floats
from txexport.contracts.stage import ONCE, Stage, sources_of
from txexport.parts import dual_attention, stacks
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout
from txexport.spec import EncoderDecoderSpec
from txexport.spec.attention_parameters import cross_key_value
from txexport.spec.shapes import Shapes, under

OF_IMAGES = {names.IMAGE_FEATURES: f"{roles.IMAGE_ENCODER}.{names.IMAGE_FEATURES}"}


def image_graphs(spec: EncoderDecoderSpec) -> dict[str, Signature]:
    """The graph of images by its role, pixels to their vectors; none without images."""
    if spec.vision is None:
        return dual_attention.picture_graphs(spec)
    pixels = input_of(spec.vision).ports(spec.vision, (names.IMAGE_BATCH_SIZE,))
    return {roles.IMAGE_ENCODER: Signature(pixels, (_vectors(spec, names.IMAGE_BATCH_SIZE),))}


def image_inputs(spec: EncoderDecoderSpec) -> tuple[Port, ...]:
    """The vectors of an image for each text, to which the encoder attends; none without these."""
    return () if spec.vision is None else (_vectors(spec, names.BATCH_SIZE),)


def _vectors(spec: EncoderDecoderSpec, rows: str) -> Port:
    assert spec.vision is not None
    length = input_of(spec.vision).length(spec.vision.embedding, names.SEQUENCE_LENGTH)
    return floats(names.IMAGE_FEATURES, rows, length, spec.vision.hidden_size)


def image_stages(spec: EncoderDecoderSpec, graphs: dict[str, Signature]) -> list[Stage]:
    """The stage of images, whose graph is taken out of `graphs`; none without images."""
    if spec.vision is None:
        return dual_attention.picture_stages(spec, graphs)
    inputs = sources_of(graphs.pop(roles.IMAGE_ENCODER).inputs)
    return [Stage(roles.IMAGE_ENCODER, ONCE, inputs, input_of(spec.vision).facts(spec.vision.embedding))]


def image_readouts(spec: EncoderDecoderSpec) -> tuple[Readout, ...]:
    """The graph of images among tokens, or the keys and values of those beside them."""
    if spec.vision is None:
        return dual_attention.readouts(spec)
    return (Readout("seen", "of an image, for the encoder", every=True),)


def image_parameters(spec: EncoderDecoderSpec) -> Shapes:
    """The stack over images, and the projections to keys and values; none without images."""
    if spec.vision is None:
        return dual_attention.pictures(spec)
    shapes = under(names.VISION, stacks.parameters(spec.vision))
    for layer, kind in enumerate(spec.encoder.layers):
        if kind.cross_attention is not None:
            shapes |= under(f"seen.{layer}", cross_key_value(kind.cross_attention))
    return shapes
