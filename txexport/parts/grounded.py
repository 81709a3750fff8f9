"""A text and an image that read one another: cases, and parameters and operations behind the encoders."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from txexport.parts.query_layers import box, deformable, normed, repeated, sampled, separate
from txexport.spec import GroundedSpec
from txexport.spec.parameters import feed_forward
from txexport.spec.shapes import Shapes, linear, norm, under


@dataclass(frozen=True)
class GroundedCase:
    """A text and an image in each row, both padded; the reference reads them so too."""

    name: str
    input_ids: np.ndarray  # (B, S)
    attention_mask: np.ndarray  # (B, S)
    token_type_ids: np.ndarray  # (B, S)
    pixel_values: np.ndarray  # (B, channels, height, width)
    pixel_mask: np.ndarray  # (B, h, w)


def parameters(spec: GroundedSpec) -> dict[str, Shapes]:
    """Those of each component behind the encoders, by its name."""
    width, scale, change = spec.hidden_size, norm(spec.norm), box(spec.hidden_size, spec.box_layers)
    first = under("vector", linear(width, width, True)) | under("norm", scale) | under("box", change)
    position = under("layers.0", linear(2 * width, width, True)) | under(
        "layers.1", linear(width, width, True)
    )
    moves = 1 if spec.shared_boxes else spec.objects.num_layers
    return {
        "maps": map_levels(spec.map_sizes, spec.levels, width),
        "level_embed": {"weight": (spec.levels, width)},
        "layers": repeated(spec.cells.num_layers, _layer(spec)),
        "first_boxes": first,
        "queries": {"weight": (spec.queries, width)},
        "query_position": position,
        "query_layers": repeated(spec.objects.num_layers, _object_layer(spec)),
        "boxes": repeated(moves, under("layers", change)),
        "query_norm": scale,
    }


def map_levels(sizes: Sequence[int], levels: int, width: int) -> Shapes:
    """Projections of maps of `sizes` channels to `width`, and of the last of them to coarser ones."""
    maps: Shapes = {}
    for level in range(levels):
        size = sizes[min(level, len(sizes) - 1)] if level <= len(sizes) else width
        kernel = 3 if level >= len(sizes) else 1
        maps[f"{level}.convolution.weight"] = (width, size, kernel, kernel)
        maps |= {f"{level}.convolution.bias": (width,)}
        maps |= {f"{level}.norm.weight": (width,), f"{level}.norm.bias": (width,)}
    return maps


def _layer(spec: GroundedSpec) -> Shapes:
    """A layer over places and tokens."""
    width, inner, scale = spec.hidden_size, spec.inner, norm(spec.norm)
    shapes = under("image_norm", scale) | under("text_norm", scale)
    for name in ("q", "k", "image_v", "text_v"):
        shapes |= under(name, linear(width, inner, True))
    for name in ("image_o", "text_o"):
        shapes |= under(name, linear(inner, width, True))
    shapes |= {"image_scale": (width,), "text_scale": (width,)}
    parts = {
        "text_attention": separate(width),
        "text_feed_forward": feed_forward(spec.network(inner)),
        "attention": deformable(spec.cell_attention),
        "feed_forward": feed_forward(spec.network(spec.cells.intermediate_size)),
    }
    return under("fusion", shapes) | normed(parts, scale)


def _object_layer(spec: GroundedSpec) -> Shapes:
    """A layer over queries."""
    parts = {
        "attention": separate(spec.hidden_size),
        "text_attention": separate(spec.hidden_size),
        "cross_attention": deformable(spec.object_attention),
        "feed_forward": feed_forward(spec.network(spec.objects.intermediate_size)),
    }
    return normed(parts, norm(spec.norm))


def operations(spec: GroundedSpec) -> dict[str, int]:
    """The operations of each component for an image and a text of `spec.limit` tokens, by its name."""
    width, inner, tokens, queries = spec.hidden_size, spec.inner, spec.limit, spec.queries
    cells = [rows * columns for rows, columns in spec.grids]
    total, shapes = sum(cells), parameters(spec)
    weights = [math.prod(shapes["maps"][f"{level}.convolution.weight"]) for level in range(spec.levels)]
    box = queries * width * ((spec.box_layers - 1) * width + 4)
    fused = 3 * (total + tokens) * width * inner + 3 * total * tokens * inner
    texts = 4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * inner
    image = sampled(spec.cell_attention, total, total)
    image += 2 * total * width * spec.cells.intermediate_size
    objects = 6 * queries * width**2 + 2 * queries**2 * width
    objects += 2 * tokens * width**2 + 2 * queries * tokens * width
    objects += sampled(spec.object_attention, queries, total)
    objects += 2 * queries * width * spec.objects.intermediate_size
    layers = spec.objects.num_layers
    products = {
        "maps": sum(count * weight for count, weight in zip(cells, weights, strict=True)),
        "layers": spec.cells.num_layers * (fused + texts + image),
        "first_boxes": total * width**2 + total * tokens * width + box,
        "query_position": layers * queries * 3 * width**2,
        "query_layers": layers * objects,
        "boxes": layers * box,
        "query_norm": queries * tokens * width,
    }
    return {name: 2 * products.get(name, 0) for name in shapes}
