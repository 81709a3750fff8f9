"""Layers over all tiles of an image, locally and then globally (Meta 2024, Llama 3.2)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names
from txexport.spec import TiledStackSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.block import encoder_block
from txgraphs.inputs.tiles import tile_vectors, tiles_embedding
from txgraphs.norm import norm


def tiled_encoder(
    spec: TiledStackSpec,
    graph: Graph,
    inputs: dict[str, ir.Value],
    stack: str,
) -> ir.Value:
    """pixel_values (I,T,channels,side,side), aspect_ratio_ids (I), aspect_ratio_mask (I,T) -> x (I,T*N,W).

    Each vector is the last layer's, and then each number's outputs of the layers that are read.
    """
    op, embedding, width = graph.op, spec.embedding, spec.hidden_size
    pixel_values, ratios = inputs[names.PIXEL_VALUES], inputs[names.ASPECT_RATIO_IDS]
    tile_mask = inputs[names.ASPECT_RATIO_MASK]
    mask = graph.call(
        tile_attention_mask(embedding.vectors_of_tile, embedding.padded), tile_mask, name="mask"
    )  # (I, 1, S, S)
    tiles = tiles_embedding(embedding, graph / f"{stack}.embedding", pixel_values, ratios)  # (I, T, M, W)
    flat = graph.constant("flat", [0, -1, width])
    apart = graph.constant("apart", [0, embedding.tiles, -1, width])
    x, states = op.Reshape(tiles, flat), []  # (I, T*M, W)
    context = {"mask": mask, "cos": None, "sin": None}
    for number, block in enumerate(spec.layers):
        if number == spec.local_layers:
            x = op.Reshape(norm(spec.middle_norm, graph / f"{stack}.middle_norm", x), apart)  # (I, T, M, W)
            x = op.Reshape(op.Add(x, tile_vectors(embedding, graph / f"{stack}.after", ratios)), flat)
        (x,) = encoder_block(block, False, graph / f"{stack}.layers.{number}", x, **context)
        states.append(x)
    last = graph.constant("last", [-1])
    read = op.Concat(*(op.Unsqueeze(states[layer], last) for layer in spec.read), axis=-1)
    every = op.Concat(x, op.Reshape(read, graph.constant("read", [0, 0, -1])), axis=-1)
    size = spec.output_size
    every = op.Reshape(every, graph.constant("every", [0, embedding.tiles, -1, size]))  # (I, T, M, W')
    start, end = graph.constant("first", [0]), graph.constant("vectors", [embedding.vectors_of_tile])
    real = op.Slice(every, start, end, graph.constant("axis", [2]))
    y: ir.Value = op.Reshape(real, graph.constant("image", [0, -1, size]))  # (I, T*N, W')
    return y


@cache
def tile_attention_mask(vectors: int, padded: int) -> OnnxFunction:
    """tile_mask (I,T) -> mask (I,1,S,S): no padding sees padding, and all else sees all.

    Of the `padded` vectors of a tile the first `vectors` are real, unless the tile itself is padding.
    """

    @script(domain, default_opset=op)
    def tile_attention_mask(tile_mask):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        inside = op.Less(op.Range(zero, op.Constant(value_int=padded), one), op.Constant(value_int=vectors))
        tiles = op.Unsqueeze(op.Greater(tile_mask, zero), op.Constant(value_ints=[2]))  # (I, T, 1)
        real = op.Reshape(op.And(tiles, inside), op.Constant(value_ints=[0, -1]))  # (I, S)
        queries = op.Unsqueeze(real, op.Constant(value_ints=[1, 3]))  # (I, 1, S, 1)
        mask = op.Or(queries, op.Unsqueeze(real, op.Constant(value_ints=[1, 2])))  # (I, 1, S, S)
        return mask

    return tile_attention_mask
