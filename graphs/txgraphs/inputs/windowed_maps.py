"""Images with a mask, as maps of a ViT whose layers attend within windows (Li et al. 2022, 3)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import WindowedMapsSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.block import encoder_block
from txgraphs.inputs.patches import patch_embedding
from txgraphs.norm import norm
from txgraphs.projector import projector_level


@component("level_0", "level_1", "level_2", "level_3", "level_4", "level_5", "level_6", "level_7")
def windowed_maps_embedding(spec: WindowedMapsSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """Feature levels of a ViT with window attention (Chen et al. 2024, 3.1).

    pixel_values (B,channels,height,width) -> levels (B,R,C,W).
    """
    op, tokens, every = g.op, spec.patches.tokens, spec.side**2

    def ints(*numbers: int) -> ir.Value:
        return op.Constant(value_ints=[*numbers])

    grid = op.Div(op.Shape(pixel_values, start=2), ints(spec.patches.patch_size, spec.patches.patch_size))
    x = patch_embedding(spec.patches, g / "patches", pixel_values)  # (B, tokens + R*C, W)
    first = op.Slice(x, ints(0), ints(tokens), ints(1)) if tokens else None
    cells = op.Slice(x, ints(tokens), op.Shape(x, start=1, end=2), ints(1)) if tokens else x
    x = g.call(cut(spec.side, spec.turned), cells, grid, name="windows")  # (B*K, S, W)
    if first is not None:
        size = op.Shape(first, start=2)
        copies = op.Expand(first, op.Concat(ints(1, every), size, axis=0))  # (B, K, W)
        copies = op.Reshape(copies, op.Concat(ints(-1, 1), size, axis=0))
        x = op.Concat(copies, x, axis=1, name="words")  # (B*K, T, W)
    shape, states = op.Shape(x), [x]
    image = op.Concat(
        ints(-1), op.Mul(op.Shape(x, start=1, end=2), ints(every)), op.Shape(x, start=2), axis=0
    )
    for number in range(spec.num_layers):
        together = number in spec.everywhere and spec.side > 1
        x = op.Reshape(x, image, name=f"image.{number}") if together else x
        x, *_ = encoder_block(spec.block, False, g / f"layers.{number}", x, mask=None, cos=None, sin=None)
        x = op.Reshape(x, shape, name=f"windows.{number}") if together else x
        states.append(x)
    maps = {}
    for number, layer in enumerate(spec.read):
        x = states[layer] if spec.norm is None else norm(spec.norm, g / "norm", states[layer])
        x = op.Slice(x, ints(tokens), op.Shape(x, start=1, end=2), ints(1)) if tokens else x
        maps[str(number)] = g.call(joined(spec.side), x, grid, name=f"map.{number}")  # (B, channels, R, C)
    size = spec.patches.hidden_size
    levels = [
        projector_level(spec.projector, size, scale, g / f"levels.{level}", maps)
        for level, scale in enumerate(spec.projector.scales)
    ]
    return tuple(op.Transpose(level, perm=[0, 2, 3, 1]) for level in levels)


@cache
def cut(side: int, turned: bool) -> OnnxFunction:
    """cells (B,R*C,W), rows and columns (2) -> vectors (B*K,S,W) of side * side windows."""
    first, second = (1, 0) if turned else (0, 1)

    @script(domain, default_opset=op)
    def cut(cells, grid):
        sides, one = op.Constant(value_ints=[side]), op.Constant(value_ints=[-1])
        size = grid / sides
        high = op.Gather(size, op.Constant(value_ints=[first]))
        wide = op.Gather(size, op.Constant(value_ints=[second]))
        width = op.Shape(cells, start=2)
        parts = op.Reshape(cells, op.Concat(one, sides, high, sides, wide, width, axis=0))
        turned_parts = op.Transpose(parts, perm=[0, 1, 3, 2, 4, 5])
        windows = op.Reshape(turned_parts, op.Concat(one, high * wide, width, axis=0))
        return windows

    return cut


@cache
def joined(side: int) -> OnnxFunction:
    """Vectors x (B*K,S,W) of side * side windows, rows and columns (2) -> a map (B,W,R,C)."""

    @script(domain, default_opset=op)
    def joined(x, grid):
        sides, width = op.Constant(value_ints=[side, side]), op.Shape(x, start=2)
        one = op.Constant(value_ints=[-1])
        parts = op.Reshape(x, op.Concat(one, sides, grid / sides, width, axis=0))
        turned = op.Transpose(parts, perm=[0, 5, 1, 3, 2, 4])
        y = op.Reshape(turned, op.Concat(one, width, grid, axis=0))
        return y

    return joined


embedding = windowed_maps_embedding
