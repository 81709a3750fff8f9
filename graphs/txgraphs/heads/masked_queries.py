"""Labels and masks of an image's segments, by masked attention (Cheng et al. 2022, 3.2)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import HeadSpec
from txexport.spec.masks import MASK_LAYERS
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.deformable_pyramid import deformable_pyramid
from txgraphs.heads.boxes import perceptron
from txgraphs.heads.masks import every_place, mask_scores
from txgraphs.heads.segments import bilinear
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.query_stack import of_every_row, query_layer, sine_positions
from txgraphs.staged_stack import flat_grid


@component("classes", "masks")
def masked_queries_head(spec: HeadSpec, g: Body, maps: dict[str, ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Queries that read maps within their own masks; a label and a mask of each (Cheng et al. 2022, 3.2).

    maps (B,R,C,channels), the finest first -> class logits (B,Q,labels), mask logits (B,Q,R,C).
    """
    assert spec.masked_queries is not None
    op, queries_spec = g.op, spec.masked_queries
    width, block = queries_spec.hidden_size, queries_spec.block
    channels = {name: op.Transpose(x, perm=[0, 3, 1, 2]) for name, x in maps.items()}
    pixels, *levels = deformable_pyramid(queries_spec.pyramid, g / "pyramid", channels)
    images, positions = [], []
    learned_levels = g.weight("levels.weight")  # (L, W)
    for number, level in enumerate(levels):
        x = level
        if queries_spec.projected:
            place = g / f"projects.{number}"
            x = op.Conv(level, place.weight("weight"), place.weight("bias"), name=f"level.{number}")
        grid = op.Transpose(x, perm=[0, 2, 3, 1])  # (B, r, c, W)
        of_level = op.Gather(learned_levels, op.Constant(value_ints=[number]))
        images.append(op.Add(g.call(flat_grid, grid), of_level))  # (B, s, W)
        positions.append(g.call(sine_positions(width, g.dtype), g.call(every_place, grid)))
    learned = g.call(of_every_row, g.weight("queries.weight"), pixels)  # (B, Q, W)
    y = g.call(of_every_row, g.weight("first.weight"), pixels)
    for number in range(queries_spec.layers.num_layers):
        at, place = number % len(levels), g / f"query_layers.{number}"
        vectors = perceptron(g, "mask", MASK_LAYERS, norm(block.norm, g / "query_norm", y))
        seen = g.call(within_masks, g.call(mask_scores, vectors, pixels), levels[at])
        y = query_layer(block, queries_spec.layers, place, y, learned, seen, images[at], positions[at])
    queries = norm(block.norm, g / "query_norm", y)
    masks = g.call(mask_scores, perceptron(g, "mask", MASK_LAYERS, queries), pixels)
    return linear(True, g / "classes", queries), masks


@script(domain, default_opset=op)
def within_masks(masks, level):
    """mask logits (B,Q,R,C), a map (B,W,r,c) -> which places each query sees (B,1,Q,r*c).

    Those within its mask, or all where the mask has none.
    """
    resized = bilinear(masks, op.Shape(level, start=2))
    flat = op.Reshape(resized, op.Constant(value_ints=[0, 0, -1]))  # (B, Q, r * c)
    inside = op.GreaterOrEqual(flat, op.CastLike(op.Constant(value_float=0.0), flat))
    count = op.ReduceSum(op.Cast(inside, to=7), op.Constant(value_ints=[2]), keepdims=1)  # (B, Q, 1)
    none = op.Equal(count, op.Constant(value_int=0))
    seen = op.Unsqueeze(op.Or(inside, none), op.Constant(value_ints=[1]))
    return seen


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's outputs: class_queries_logits (B,Q,labels) and masks_queries_logits (B,Q,R,C)."""
    classes, masks = masked_queries_head(spec, place, maps)
    return {names.CLASS_QUERIES_LOGITS: classes, names.MASKS_QUERIES_LOGITS: masks}
