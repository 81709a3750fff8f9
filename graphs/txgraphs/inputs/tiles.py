"""Patches of all tiles of an image (Meta 2024, Llama 3.2)."""

import onnx_ir as ir

from txexport.spec import TilesSpec
from txgraphs._component import Body, component
from txgraphs.gate import gate
from txgraphs.norm import norm


@component("y")
def tile_vectors(spec: TilesSpec, g: Body, ratios: ir.Value) -> ir.Value:
    """Vectors of the tiles of an image, by its aspect ratio, times a gate: ratios (I) -> (I,T,1,W)."""
    rows = g.op.Gather(g.weight("weight"), ratios)  # (I, T*W)
    shape = g.op.Constant(value_ints=[0, spec.tiles, 1, spec.hidden_size])
    return gate(g / "gate", g.op.Reshape(rows, shape))


@component("x")
def tiles_embedding(spec: TilesSpec, g: Body, pixel_values: ir.Value, ratios: ir.Value) -> ir.Value:
    """Patches of tiles, projected, after the vector of their class, plus positions.

    pixel_values (I,T,channels,side,side), ratios (I) -> x (I,T,N,W), zeros for padding of a tile.
    """
    op, width, tiles = g.op, spec.hidden_size, spec.tiles
    flat = op.Reshape(pixel_values, op.Constant(value_ints=[-1, *spec.shape[1:]]), name="flat")
    sides = {"strides": [spec.patch_size] * 2}
    grid = op.Conv(flat, g.weight("project.weight"), **sides, name="grid")  # (I*T, W, rows, columns)
    apart = op.Reshape(grid, op.Constant(value_ints=[-1, tiles, width, spec.vectors_of_tile - 1]))
    patches = op.Transpose(apart, perm=[0, 1, 3, 2], name="patches")  # (I, T, patches, W)
    patches = op.Add(patches, tile_vectors(spec, g / "before", ratios))
    ones = op.Constant(value_ints=[1, 1])
    shape = op.Concat(op.Shape(patches, end=2), ones, axis=0, name="shape")
    first = op.Expand(g.weight("token.weight"), shape)  # (I, T, 1, W)
    x = op.Concat(first, patches, axis=2, name="x")  # (I, T, 1 + patches, W)
    position, scale = g.weight("position.weight"), op.Tanh(g.weight("position_gate.weight"), name="scale")
    rest = op.Sub(op.CastLike(op.Constant(value_float=1.0), scale), scale)
    x = op.Add(x, op.Mul(position, rest), name="x")
    in_tiles = op.Gather(g.weight("tile_position.weight"), ratios)  # (I, T*(1 + patches)*W)
    in_tiles = op.Reshape(in_tiles, op.Constant(value_ints=[0, tiles, spec.vectors_of_tile, width]))
    x = norm(spec.norm, g / "norm", op.Add(x, op.Mul(in_tiles, scale), name="x"))
    more = op.Constant(value_ints=[0, 0, 0, 0, 0, 0, spec.padded - spec.vectors_of_tile, 0])
    return op.Pad(x, more)


embedding = tiles_embedding
