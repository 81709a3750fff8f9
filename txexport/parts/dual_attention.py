"""Parameters of the stages that make vectors of images, by windows and by channels."""

from txexport.spec import DualStageSpec, NormSpec, PicturesSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under

KERNEL = 3  # of the convolutions that give positions


def pictures(spec: PicturesSpec) -> Shapes:
    """The stages, tables of rows, columns and moments, the projection and its norm."""
    width, shapes = spec.hidden_size, Shapes()
    for number, stage in enumerate(spec.stages):
        shapes |= under(f"stages.{number}", _stage(stage, spec))
    shapes["row.weight"] = (spec.positions, width // 2)
    shapes["column.weight"] = (spec.positions, width - width // 2)
    shapes["moment.weight"] = (spec.moments, width)
    return shapes | under("project", linear(width, spec.norm.size, False)) | under("norm", norm(spec.norm))


def _stage(spec: DualStageSpec, images: PicturesSpec) -> Shapes:
    """The convolution to a grid with its norm, and the layers."""
    width, kernel = spec.hidden_size, spec.kernel
    shapes: Shapes = {"project.weight": (width, spec.inputs, kernel, kernel), "project.bias": (width,)}
    shapes |= under("norm", norm(spec.norm))
    normed = norm(NormSpec(width, images.layer_norm))
    for layer in range(2 * spec.num_layers):
        parts: Shapes = {}
        for name in ("position", "second_position"):
            parts |= {f"{name}.weight": (width, 1, KERNEL, KERNEL), f"{name}.bias": (width,)}
        for name in "qkv":
            parts |= under(f"attention.{name}", linear(width, width, images.bias))
        parts |= under("attention.o", linear(width, width, True))
        parts |= under("feed_forward", feed_forward(spec.feed_forward))
        parts |= under("attention_norm", normed) | under("feed_forward_norm", normed)
        shapes |= under(f"layers.{layer}", parts)
    return shapes
