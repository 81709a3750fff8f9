"""Parameters and products that stacks of queries over an image share."""

from txexport.spec import DeformableAttentionSpec
from txexport.spec.shapes import Shapes, linear, under


def repeated(count: int, shapes: Shapes) -> Shapes:
    """The same shapes in each of `count` layers."""
    return {key: shape for layer in range(count) for key, shape in under(f"{layer}", shapes).items()}


def normed(parts: dict[str, Shapes], scale: Shapes) -> Shapes:
    """Sublayers, each with a norm."""
    shapes: Shapes = {}
    for name, inner in parts.items():
        shapes |= under(name, inner) | under(f"{name}_norm", scale)
    return shapes


def separate(width: int) -> Shapes:
    """Query, key, value and output projections."""
    shapes: Shapes = {}
    for name in ("q", "k", "v", "o"):
        shapes |= under(name, linear(width, width, True))
    return shapes


def deformable(spec: DeformableAttentionSpec) -> Shapes:
    """The projections of deformable attention, and its factors."""
    width, shapes = spec.hidden_size, Shapes()
    values = {"v": width, "o": width} if spec.projected else {}
    for name, size in ({"offsets": 2 * spec.sampled, "shares": spec.sampled} | values).items():
        shapes |= under(name, linear(width, size, True))
    return shapes | ({"factors": (sum(spec.counts),)} if spec.counts else {})


def box(width: int, layers: int, outputs: int = 4) -> Shapes:
    """The dense layers of a box, of 4 numbers or more."""
    shapes: Shapes = {}
    for layer in range(layers):
        shapes |= under(f"{layer}", linear(width, outputs if layer == layers - 1 else width, True))
    return shapes


def sampled(spec: DeformableAttentionSpec, queries: int, cells: int) -> int:
    """Products of attention of `queries` vectors to points among `cells` places."""
    width, count = spec.hidden_size, spec.sampled
    read = queries * count * width // spec.num_heads
    values = (queries + cells) * width**2 if spec.projected else 0
    return queries * width * 3 * count + values + read
