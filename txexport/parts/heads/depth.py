"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads import _fusion
from txexport.parts.part import Shape
from txexport.spec import DepthSpec, HeadKind, HeadSpec, StagedDepthSpec
from txexport.spec.shapes import Shapes, batch_norm, convolution, under


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
        if isinstance(head.depth, StagedDepthSpec):
            return _of_stages(head.depth)
        assert head.depth is not None
        fusion, inner = head.depth.fusion, head.depth.head_size
        shapes = under("neck", _fusion.parameters(fusion, hidden_size))
        if head.depth.projected:
            shapes |= under("projection", convolution(fusion.size, fusion.size, 3))
        shapes |= under("halve", convolution(fusion.size, fusion.size // 2, 3))
        shapes |= under("convolve", convolution(fusion.size // 2, inner, 3))
        return shapes | under("project", convolution(inner, 1, 1))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The layers that it reads, and the unit of its depths."""
        assert head.depth is not None
        most = f"up to {head.depth.max_depth:g}"
        if isinstance(head.depth, StagedDepthSpec):
            return f"depth, {most}, of all stages"
        layers = ", ".join(map(str, head.depth.fusion.layers))
        return f"depth, {most if head.depth.metric else 'relative'}, of the layers {layers}"


def _of_stages(depth: StagedDepthSpec) -> Shapes:
    """The projections of the maps, their fusions, and the convolutions of the last map."""
    shapes, size, half = Shapes(), depth.size, depth.size // 2
    for number, channels in enumerate(depth.sizes):
        if channels != size:
            shapes |= under(f"projects.{number}", convolution(channels, size, 1))
    for number in range(len(depth.sizes) - 1):
        owner = f"fusions.{number}"
        shapes |= under(f"{owner}.first", convolution(2 * size, size, 3))
        shapes |= under(f"{owner}.first_norm", batch_norm(size))
        shapes |= under(f"{owner}.second", convolution(size, half, 3))
        shapes |= under(f"{owner}.second_norm", batch_norm(half))
        shapes |= under(f"{owner}.share", convolution(half, 2, 3))
    return shapes | under("convolve", convolution(size, size, 3)) | under("depth", convolution(size, 1, 3))


def operations_over_stages(depth: StagedDepthSpec, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns."""
    counts, size, half = [rows * columns for rows, columns in grids], depth.size, depth.size // 2
    projected = sum(
        count * channels * size
        for count, channels in zip(counts, depth.sizes, strict=True)
        if channels != size
    )
    fused = sum(counts[:-1]) * 9 * (2 * size * size + size * half + half * 2)
    return 2 * (projected + fused + 16 * counts[0] * 9 * (size * size + size))


def operations(depth: DepthSpec, hidden_size: int, rows: int, columns: int) -> int:
    """The operations for an image of `rows` and `columns` of patches, less those of matrices."""
    fusion, inner = depth.fusion, depth.head_size
    high, wide = fusion.fused_sides(rows, columns)[0]
    outputs = fusion.size // 2 + (fusion.size if depth.projected else 0)
    products = 9 * 4 * high * wide * fusion.size * outputs
    area = 16 * high * wide if fusion.doubling else rows * columns * fusion.patch_size**2
    products += area * (9 * (fusion.size // 2) * inner + inner)
    return _fusion.operations(fusion, hidden_size, rows, columns) + 2 * products


HEAD = Depth()
