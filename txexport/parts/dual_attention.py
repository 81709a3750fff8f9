"""The graph that makes vectors of images, by windows and by channels: ports, facts and parameters."""

from txexport.contracts import names, roles
from txexport.contracts.contract import Signature, floats
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.parts.part import Readout
from txexport.spec import DualStageSpec, EncoderDecoderSpec, NormSpec, PicturesSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under

KERNEL = 3  # of the convolutions that give positions


def picture_graphs(spec: EncoderDecoderSpec) -> dict[str, Signature]:
    """The graph of images by its role, pixels of images of one size to their vectors; none without images."""
    if spec.pictures is None:
        return {}
    sides, images, width = (names.HEIGHT, names.WIDTH), names.IMAGE_BATCH_SIZE, spec.pictures.norm.size
    pixels = floats(names.PIXEL_VALUES, images, spec.pictures.channels, *sides)
    vectors = floats(names.IMAGE_FEATURES, images, names.NUM_FEATURES, width)
    return {roles.IMAGE_ENCODER: Signature((pixels,), (vectors,))}


def picture_stages(spec: EncoderDecoderSpec, graphs: dict[str, Signature]) -> list[Stage]:
    """The stage of images, whose graph is taken out of `graphs`; none without images.

    An image has a vector of the mean, and one for each square of pixels or part of one.
    """
    if spec.pictures is None:
        return []
    facts = GraphFacts(image_token_id=spec.image_token_id, vector_side=spec.pictures.side, prefix_tokens=1)
    return [Stage(roles.IMAGE_ENCODER, ONCE, sources_of(graphs.pop(roles.IMAGE_ENCODER).inputs), facts)]


def readouts(spec: EncoderDecoderSpec) -> tuple[Readout, ...]:
    """The graph of images; none without images."""
    if spec.pictures is None:
        return ()
    note = f"a vector for {spec.pictures.side} x {spec.pictures.side} pixels, and one of all"
    return (Readout("pictures", note, every=True, apart=True),)


def pictures(spec: EncoderDecoderSpec) -> Shapes:
    """The convolutions, layers, tables of positions and the projection; none without images."""
    return {} if spec.pictures is None else under("pictures", _pictures(spec.pictures))


def _pictures(spec: PicturesSpec) -> Shapes:
    width, shapes, number = spec.hidden_size, Shapes(), 0
    for place, stage in enumerate(spec.stages):
        shapes |= under(f"mergings.{place}", _merging(stage))
        for _ in range(2 * stage.num_layers):
            shapes |= under(f"layers.{number}", _layer(stage, spec))
            number += 1
    vectors: Shapes = {
        "row.weight": (spec.positions, width // 2),
        "column.weight": (spec.positions, width - width // 2),
        "moment.weight": (spec.moments, width),
        **under("project", linear(width, spec.norm.size, False)),
        **under("norm", norm(spec.norm)),
    }
    return shapes | under("vectors", vectors)


def _merging(spec: DualStageSpec) -> Shapes:
    """The convolution to a grid, with its norm."""
    width, kernel = spec.hidden_size, spec.kernel
    shapes: Shapes = {"project.weight": (width, spec.inputs, kernel, kernel), "project.bias": (width,)}
    return shapes | under("norm", norm(spec.norm))


def _layer(spec: DualStageSpec, images: PicturesSpec) -> Shapes:
    """One layer."""
    width, shapes = spec.hidden_size, Shapes()
    for name in ("position", "second_position"):
        shapes |= {f"{name}.weight": (width, 1, KERNEL, KERNEL), f"{name}.bias": (width,)}
    for name in "qkv":
        shapes |= under(f"attention.{name}", linear(width, width, images.bias))
    shapes |= under("attention.o", linear(width, width, True))
    shapes |= under("feed_forward", feed_forward(spec.feed_forward))
    normed = norm(NormSpec(width, images.layer_norm))
    return shapes | under("attention_norm", normed) | under("feed_forward_norm", normed)
