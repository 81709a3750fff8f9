"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.part import Shape
from txexport.spec import ClassReadout, DepthSpec, HeadKind, HeadSpec
from txexport.spec.shapes import Shapes, under

HALF = 0.5  # the factor of a map by a convolution with stride 2


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
        depth, shapes = head.depth, Shapes()
        size = depth.fused_size
        for number, part in enumerate(depth.maps):
            owner, kernel = f"neck.maps.{number}", 3 if part.factor == HALF else int(part.factor)
            if part.readout == ClassReadout.PROJECT:
                weight, bias = (hidden_size, 2 * hidden_size), (hidden_size,)
                shapes |= under(f"{owner}.readout", {"weight": weight, "bias": bias})
            shapes |= under(f"{owner}.project", _convolution(hidden_size, part.size, 1))
            if part.factor != 1:
                shapes |= under(f"{owner}.resize", _convolution(part.size, part.size, kernel))
            shapes |= under(f"{owner}.convolve", _convolution(part.size, size, 3, bias=False))
        for number in range(len(depth.maps)):
            units = ("refine",) if number == len(depth.maps) - 1 else ("add", "refine")
            for unit in (f"{name}.{place}" for name in units for place in ("first", "second")):
                shapes |= under(f"neck.fusions.{number}.{unit}", _convolution(size, size, 3))
            shapes |= under(f"neck.fusions.{number}.project", _convolution(size, size, 1))
        shapes |= under("halve", _convolution(size, size // 2, 3))
        shapes |= under("convolve", _convolution(size // 2, depth.head_size, 3))
        return shapes | under("project", _convolution(depth.head_size, 1, 1))

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """The layers that it reads, and the unit of its depths."""
        assert head.depth is not None
        layers = ", ".join(map(str, head.depth.layers))
        unit = f"up to {head.depth.max_depth:g}" if head.depth.metric else "relative"
        return f"depth, {unit}, of the layers {layers}"


def operations(depth: DepthSpec, hidden_size: int, rows: int, columns: int) -> int:
    """The operations for an image of `rows` and `columns` of patches, less those of matrices.

    Matrices are counted with every vector of a sequence elsewhere; here, those before the patches are taken
    off, which no matrix reads.
    """
    size, sides = depth.fused_size, depth.sides(rows, columns)
    pixels = [high * wide for high, wide in sides]
    products = 0
    for part, area in zip(depth.maps, pixels, strict=True):
        products += rows * columns * hidden_size * part.size
        if part.readout == ClassReadout.PROJECT:
            products -= depth.tokens * 2 * hidden_size**2
        if part.factor != 1:
            read = 9 * area if part.factor == HALF else area
            products += read * part.size**2
        products += 9 * area * part.size * size
    for number, area in enumerate(pixels):
        units = 1 if number == len(pixels) - 1 else 2
        products += area * size**2 * (2 * 9 * units + 1)
    products += 9 * 4 * pixels[0] * size * (size // 2)
    area = rows * columns * depth.patch_size**2
    products += area * (9 * (size // 2) * depth.head_size + depth.head_size)
    return 2 * products


def _convolution(inputs: int, outputs: int, kernel: int, bias: bool = True) -> Shapes:
    shapes: Shapes = {"weight": (outputs, inputs, kernel, kernel)}
    return shapes | {"bias": (outputs,)} if bias else shapes


HEAD = Depth()
