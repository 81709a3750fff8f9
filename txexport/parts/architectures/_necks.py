"""Parameters and operations of what is between an image encoder and a decoder of masks."""

from collections.abc import Sequence

from txexport.spec import MapNeckSpec, NeckSpec
from txexport.spec.shapes import Shapes, norm, under


def neck(spec: NeckSpec | MapNeckSpec) -> Shapes:
    """The parameters of a neck."""
    return _map_neck(spec) if isinstance(spec, MapNeckSpec) else _neck(spec)


def operations(spec: NeckSpec | MapNeckSpec, cells: Sequence[int]) -> int:
    """Those of an image, by the number of `cells` in each stage."""
    if isinstance(spec, NeckSpec):
        return 2 * cells[0] * (spec.hidden_size * spec.size + 9 * spec.size**2)
    projected = sum(count * width * spec.size for count, width in zip(cells, spec.sizes, strict=True))
    narrowed = sum(count * spec.size * width for count, width in zip(cells, spec.narrow, strict=False))
    return 2 * (projected + narrowed)


def _neck(spec: NeckSpec) -> Shapes:
    """The projection and the convolution, each with its norm."""
    return {
        "project.weight": (spec.size, spec.hidden_size, 1, 1),
        **under("project_norm", norm(spec.norm)),
        "convolve.weight": (spec.size, spec.size, 3, 3),
        **under("convolve_norm", norm(spec.norm)),
    }


def _map_neck(spec: MapNeckSpec) -> Shapes:
    """The projection of every map, those of the finest two, and the vector that stands for no memory."""
    shapes: Shapes = {}
    for name, widths, inner in (
        ("projects", [spec.size] * len(spec.sizes), spec.sizes),
        ("narrow", spec.narrow, [spec.size] * 2),
    ):
        for stage, (outer, width) in enumerate(zip(widths, inner, strict=True)):
            shapes[f"{name}.{stage}.weight"] = (outer, width, 1, 1)
            shapes[f"{name}.{stage}.bias"] = (outer,)
    return shapes | {"no_memory.weight": (1, spec.size)}
