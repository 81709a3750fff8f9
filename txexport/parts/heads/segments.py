"""Scores of labels for the places of an image, from maps of several resolutions."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.heads import _fusion
from txexport.parts.part import Shape
from txexport.spec import FusedSegmentsSpec, HeadKind, HeadSpec, MapPyramidSpec, PyramidSpec, SegmentsSpec
from txexport.spec.shapes import Shapes, batch_norm, convolution, convolution_norm, linear, under


class Segments:
    """Scores of the labels of every place, from the maps of all stages or the states of several layers."""

    kind = HeadKind.SEGMENTS
    component = "segments"
    per_sequence = False

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """logits (B,labels,height,width), of the places of the finest map, or of the image's pixels."""
        sides = names.LOGITS_HEIGHT, names.LOGITS_WIDTH
        if head.map_pyramid is not None:
            sides = names.HEIGHT, names.WIDTH
        return (floats(names.LOGITS, hidden[0], head.labels, *sides),)

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """The maps of states, the layers that join maps, and the projection to the scores."""
        match head.segments:
            case FusedSegmentsSpec(fusion=fusion):
                shapes, width = under("neck", _fusion.parameters(fusion, hidden_size)), fusion.size
                shapes |= under("convolve", convolution_norm(width, width, 3))
            case PyramidSpec() as pyramid:
                shapes, width = under("pyramid", _pyramid(pyramid, hidden_size)), hidden_size
            case MapPyramidSpec() as pyramid:
                shapes, width = under("pyramid", _map_pyramid(pyramid)), pyramid.norm.size
            case SegmentsSpec() as segments:
                shapes, width = _of_stages(segments), segments.hidden_size
            case None:
                raise AssertionError("a head of segments has their spec")
        return shapes | under("scores", convolution(width, head.labels, 1))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The number of labels, and the layers that it reads, if not the stages."""
        layers = "" if head.neck is None else f", of the layers {', '.join(map(str, head.neck.layers))}"
        return f"segments, {head.labels:,} labels{layers}"


def _of_stages(segments: SegmentsSpec) -> Shapes:
    """The projections of the maps, the joint one in parts, and its norm."""
    width, shapes = segments.hidden_size, Shapes()
    for number, size in enumerate(segments.sizes):
        shapes |= under(f"projects.{number}", linear(size, width, True))
    for number in range(len(segments.sizes)):
        shapes |= under(f"fuses.{number}", convolution(width, width, 1, bias=False))
    return shapes | under("norm", batch_norm(width))


def _pyramid(pyramid: PyramidSpec, width: int) -> Shapes:
    """The convolutions that make maps of states, and those of the pyramid."""
    shapes = under("finest.first", convolution(width, width, 2)) | under("finest.norm", batch_norm(width))
    shapes |= under("finest.second", convolution(width, width, 2))
    shapes |= under("finer", convolution(width, width, 2))
    for number in range(len(pyramid.scales)):
        shapes |= under(f"pools.{number}", convolution_norm(width, width, 1))
    shapes |= under("pooled", convolution_norm((1 + len(pyramid.scales)) * width, width, 3))
    levels = len(pyramid.layers)
    for part, kernel in (("laterals", 1), ("outputs", 3)):
        for number in range(levels - 1):
            shapes |= under(f"{part}.{number}", convolution_norm(width, width, kernel))
    return shapes | under("joint", convolution_norm(levels * width, width, 3))


def _map_pyramid(pyramid: MapPyramidSpec) -> Shapes:
    """The convolutions of the pyramid."""
    (*finer, last), width, shapes = pyramid.sizes, pyramid.norm.size, Shapes()
    for number in range(len(pyramid.scales)):
        shapes |= under(f"pools.{number}", convolution_norm(last, width, 1))
    shapes |= under("pooled", convolution_norm(last + len(pyramid.scales) * width, width, 3))
    for number, size in enumerate(finer):
        shapes |= under(f"laterals.{number}", convolution_norm(size, width, 1))
    for number in range(len(finer)):
        shapes |= under(f"outputs.{number}", convolution_norm(width, width, 3))
    return shapes | under("joint", convolution_norm(len(pyramid.sizes) * width, width, 3))


def operations_over_maps(pyramid: MapPyramidSpec, labels: int, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns."""
    (*finer, last), width = pyramid.sizes, pyramid.norm.size
    counts, (high, wide) = [rows * columns for rows, columns in grids], grids[-1]
    products = sum(scale**2 * last * width for scale in pyramid.scales)
    products += sum(last * scale * high * (wide + scale) for scale in pyramid.scales)
    products += 9 * counts[-1] * (last + len(pyramid.scales) * width) * width
    products += sum(
        count * (size + 9 * width) * width for count, size in zip(counts[:-1], finer, strict=True)
    )
    return 2 * (products + counts[0] * width * (9 * len(counts) * width + labels))


def operations(segments: SegmentsSpec, labels: int, grids: list[tuple[int, int]]) -> int:
    """The operations for maps of `grids`, rows and columns, less those of one vector of each map.

    The matrices that project maps are counted once elsewhere.
    """
    width = segments.hidden_size
    counts = [rows * columns for rows, columns in grids]
    products = sum(
        ((count - 1) * size + count * width) * width
        for count, size in zip(counts, segments.sizes, strict=True)
    )
    return 2 * (products + counts[0] * width * labels)


def operations_over_patches(head: HeadSpec, hidden_size: int, rows: int, columns: int) -> int:
    """The operations for an image of `rows` and `columns` of patches, less those of matrices."""
    if isinstance(head.segments, FusedSegmentsSpec):
        fusion = head.segments.fusion
        high, wide = fusion.fused_sides(rows, columns)[0]
        after = 2 * 4 * high * wide * fusion.size * (9 * fusion.size + head.labels)
        return _fusion.operations(fusion, hidden_size, rows, columns) + after
    assert isinstance(head.segments, PyramidSpec)
    finest, finer, same, coarsest = (high * wide for high, wide in head.segments.sides(rows, columns))
    patches, pools = rows * columns, len(head.segments.scales)
    squared = 4 * patches + 4 * finer + 4 * patches  # transposed convolutions, by the places that they read
    squared += sum(scale**2 for scale in head.segments.scales) + 9 * (1 + pools) * coarsest
    squared += (1 + 9) * (finest + finer + same) + 9 * len(head.segments.layers) * finest
    pooled = _pooling(head.segments, hidden_size, rows, columns)
    return 2 * (squared * hidden_size**2 + finest * hidden_size * head.labels + pooled)


def _pooling(pyramid: PyramidSpec, width: int, rows: int, columns: int) -> int:
    """The products that pool the coarsest map: its columns by a matrix of shares, then the rows."""
    high, wide = pyramid.sides(rows, columns)[-1]
    return sum(width * scale * high * (wide + scale) for scale in pyramid.scales)


HEAD = Segments()
