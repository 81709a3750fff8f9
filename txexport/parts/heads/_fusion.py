"""Parameters and operations of maps of several layers' states, fused from coarse to fine."""

from txexport.spec import ClassReadout, FeatureFusionSpec
from txexport.spec.shapes import Shapes, batch_norm, convolution, linear, under

HALF = 0.5  # the factor of a map by a convolution with stride 2


def parameters(fusion: FeatureFusionSpec, hidden_size: int) -> Shapes:
    """The convolutions of the maps and of their fusions."""
    shapes, size = Shapes(), fusion.size
    for number, part in enumerate(fusion.maps):
        owner, kernel = f"maps.{number}", 3 if part.factor == HALF else int(part.factor)
        if part.readout == ClassReadout.PROJECT:
            shapes |= under(f"{owner}.readout", linear(2 * hidden_size, hidden_size, True))
        shapes |= under(f"{owner}.project", convolution(hidden_size, part.size, 1))
        if part.factor != 1:
            shapes |= under(f"{owner}.resize", convolution(part.size, part.size, kernel))
        shapes |= under(f"{owner}.convolve", convolution(part.size, size, 3, bias=False))
    for number in range(len(fusion.maps)):
        units = ("refine",) if number == len(fusion.maps) - 1 else ("add", "refine")
        for unit in (f"fusions.{number}.{name}" for name in units):
            for place in ("first", "second"):
                shapes |= under(f"{unit}.{place}", convolution(size, size, 3, fusion.bias))
                if fusion.norm is not None:
                    shapes |= under(f"{unit}.{place}_norm", batch_norm(size))
        shapes |= under(f"fusions.{number}.project", convolution(size, size, 1))
    return shapes


def operations(fusion: FeatureFusionSpec, hidden_size: int, rows: int, columns: int) -> int:
    """The operations for an image of `rows` and `columns` of patches, less those of matrices.

    Matrices are counted with every vector of a sequence elsewhere; here, those before the patches are taken
    off, which no matrix reads.
    """
    size = fusion.size
    pixels = [high * wide for high, wide in fusion.sides(rows, columns)]
    products = 0
    for part, area in zip(fusion.maps, pixels, strict=True):
        products += rows * columns * hidden_size * part.size
        if part.readout == ClassReadout.PROJECT:
            products -= fusion.tokens * 2 * hidden_size**2
        if part.factor != 1:
            read = 9 * area if part.factor == HALF else area
            products += read * part.size**2
        products += 9 * area * part.size * size
    for number, (high, wide) in enumerate(fusion.fused_sides(rows, columns)):
        area = high * wide
        units = 1 if number == len(pixels) - 1 else 2
        products += area * size**2 * (2 * 9 * units + 1)
    return 2 * products
