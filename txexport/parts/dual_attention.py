"""The graph that makes vectors of images, by windows and by channels: ports, facts and parameters."""

from txexport.contracts import names, roles
from txexport.contracts.contract import Signature, floats
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.spec import DualStageSpec, EncoderDecoderSpec, NormSpec, PicturesSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under

KERNEL = 3  # of the convolutions that give positions


def pictures_signature(spec: PicturesSpec) -> Signature:
    """Pixels of images of one size -> their vectors."""
    sides = names.HEIGHT, names.WIDTH
    pixels = floats(names.PIXEL_VALUES, names.IMAGE_BATCH_SIZE, spec.channels, *sides)
    vectors = floats(names.IMAGE_FEATURES, names.IMAGE_BATCH_SIZE, names.NUM_FEATURES, spec.norm.size)
    return Signature((pixels,), (vectors,))


def pictures_stage(signature: Signature, spec: EncoderDecoderSpec) -> Stage:
    """The graph of images: a vector of the mean, and one for each square of pixels or part of one."""
    assert spec.pictures is not None
    facts = GraphFacts(image_token_id=spec.image_token_id, vector_side=spec.pictures.side, prefix_tokens=1)
    return Stage(roles.IMAGE_ENCODER, ONCE, sources_of(signature.inputs), facts)


def pictures(spec: PicturesSpec) -> Shapes:
    """The stages, tables of rows, columns and moments, the projection and its norm."""
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
