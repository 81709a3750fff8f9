"""Labels and masks of an image's segments (Cheng et al. 2021, 3.2 and 3.4)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import HeadSpec
from txexport.spec.masks import MASK_LAYERS
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads.boxes import perceptron
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.pixel_pyramid import pixel_pyramid
from txgraphs.query_stack import first_queries, query_layer, sine_positions
from txgraphs.staged_stack import flat_grid


@component("classes", "masks")
def masks_head(spec: HeadSpec, g: Body, maps: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Queries that read the coarsest map; a label and a mask of each (Cheng et al. 2021, 3.2 and 3.4).

    maps (B,R,C,channels), the finest first -> class logits (B,Q,labels), mask logits (B,Q,R,C).
    """
    assert spec.masks is not None
    op, width, layers = g.op, spec.masks.hidden_size, spec.masks.layers
    channels = {name: op.Transpose(x, perm=[0, 3, 1, 2]) for name, x in maps.items()}
    pixels = pixel_pyramid(spec.masks.pyramid, g / "pyramid", channels)  # (B, F, R, C)
    coarsest = [*maps.values()][-1]  # (B, r, c, channels)
    if spec.masks.projected:
        weights = g.weight("project.weight"), g.weight("project.bias")
        projected = op.Conv([*channels.values()][-1], *weights, name="projected")
        coarsest = op.Transpose(projected, perm=[0, 2, 3, 1])  # (B, r, c, W)
    positions = g.call(sine_positions(width, g.dtype), g.call(every_place, coarsest))
    image = g.call(flat_grid, coarsest, name="image")  # (B, S, W)
    learned, y = g.call(first_queries, g.weight("queries.weight"), image)  # (B, Q, W)
    for number in range(layers.num_layers):
        y = query_layer(
            spec.masks.block, layers, g / f"query_layers.{number}", y, learned, None, image, positions
        )
    queries = norm(spec.masks.norm, g / "query_norm", y)
    masks = g.call(mask_scores, perceptron(g, "mask", MASK_LAYERS, queries), pixels)
    return linear(True, g / "classes", queries), masks


@script(domain, default_opset=op)
def every_place(grid):
    """grid (B,R,C,W) -> true (B,R,C): every place is of the image."""
    real = op.Expand(op.Cast(op.Constant(value_int=1), to=9), op.Shape(grid, end=3))
    return real


@script(domain, default_opset=op)
def mask_scores(vectors, pixels):
    """vectors (B,Q,F), pixels (B,F,R,C) -> the products (B,Q,R,C) of each vector with each place."""
    products = op.MatMul(vectors, op.Reshape(pixels, op.Constant(value_ints=[0, 0, -1])))  # (B, Q, R * C)
    masks = op.Reshape(products, op.Concat(op.Shape(products, end=2), op.Shape(pixels, start=2), axis=0))
    return masks


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's outputs: class_queries_logits (B,Q,labels) and masks_queries_logits (B,Q,R,C)."""
    classes, masks = masks_head(spec, place, maps)
    return {names.CLASS_QUERIES_LOGITS: classes, names.MASKS_QUERIES_LOGITS: masks}
