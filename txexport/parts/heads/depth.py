"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads import _fusion
from txexport.parts.part import Shape
from txexport.spec import DepthSpec, HeadKind, HeadSpec
from txexport.spec.shapes import Shapes, convolution, under


class Depth:
    """The depth of every pixel, from the states of several layers."""

    kind = HeadKind.DEPTH
    component = "depth"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """predicted_depth (B,height,width), of the pixels of whole patches."""
        return (floats(names.PREDICTED_DEPTH, hidden[0], names.DEPTH_HEIGHT, names.DEPTH_WIDTH),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The convolutions of the maps, of their fusions, and of the fused map."""
        assert head.depth is not None
        fusion, inner = head.depth.fusion, head.depth.head_size
        shapes = under("neck", _fusion.parameters(fusion, hidden_size))
        shapes |= under("halve", convolution(fusion.size, fusion.size // 2, 3))
        shapes |= under("convolve", convolution(fusion.size // 2, inner, 3))
        return shapes | under("project", convolution(inner, 1, 1))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The layers that it reads, and the unit of its depths."""
        assert head.depth is not None
        layers = ", ".join(map(str, head.depth.fusion.layers))
        unit = f"up to {head.depth.max_depth:g}" if head.depth.metric else "relative"
        return f"depth, {unit}, of the layers {layers}"


def operations(depth: DepthSpec, hidden_size: int, rows: int, columns: int) -> int:
    """The operations for an image of `rows` and `columns` of patches, less those of matrices."""
    fusion, inner = depth.fusion, depth.head_size
    high, wide = fusion.sides(rows, columns)[0]
    products = 9 * 4 * high * wide * fusion.size * (fusion.size // 2)
    area = rows * columns * fusion.patch_size**2
    products += area * (9 * (fusion.size // 2) * inner + inner)
    return _fusion.operations(fusion, hidden_size, rows, columns) + 2 * products


HEAD = Depth()
