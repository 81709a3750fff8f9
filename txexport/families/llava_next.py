"""LLaVA-NeXT (Liu et al. 2024): an image as a whole and in tiles, which become one map of vectors."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.errors import UnsupportedError
from txexport.families import _pictured, llava
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import MosaicSpec, PatchSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("LlavaNextForConditionalGeneration",)}

NAMING = _pictured.NAMING
ALIASES = llava.ALIASES
CANVASES = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
MOST = 256  # canvases


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    return in_tiles(config, llava.spec(config, task, names), CANVASES)


def in_tiles(
    config: Config, base: VisionLanguageSpec, usual: list[list[int]], most: int | None = None
) -> VisionLanguageSpec:
    """LLaVA for images in tiles, on canvases of image_grid_pinpoints, by default the `usual` ones."""
    patches, canvases = base.vision.embedding, config.values.get("image_grid_pinpoints")
    canvases = usual if canvases is None else canvases
    assert isinstance(patches, PatchSpec)
    tile, wide = patches.image_size
    rows, columns = patches.grid
    if tile != wide or rows != columns:
        raise UnsupportedError(f"{config.path}: tiles of {tile} x {wide} pixels are no squares")
    pairs = [tuple(one) for one in canvases if isinstance(one, list | tuple) and len(one) == 2]
    edges = [edge for one in pairs for edge in one]
    if (
        len(pairs) != len(canvases)
        or not 1 <= len(pairs) <= MOST
        or any(type(edge) is not int for edge in edges)
    ):
        raise UnsupportedError(
            f"{config.path}: image_grid_pinpoints is {shortened(canvases)}, expected heights and widths"
        )
    if any(edge < 1 or edge % tile for edge in edges):
        raise UnsupportedError(
            f"{config.path}: image_grid_pinpoints is {shortened(canvases)}, expected multiples of {tile}"
        )
    return replace(base, mosaic=MosaicSpec(tile, rows, tuple(pairs), most))


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    table = llava.table_of(config, task, names)
    return replace(table, rules=table.rules | {"mosaic.newline": "image_newline"})
