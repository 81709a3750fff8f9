"""Images and sounds to vectors."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import LogMelSpec, NormSpec, PatchSpec
from txgraphs import domain, op
from txgraphs.activation import activation
from txgraphs.norm import norm


@cache
def patch_embedding(spec: PatchSpec) -> OnnxFunction:
    """Patches of images, projected, after learned tokens, plus positions (Dosovitskiy et al. 2021, 3.1).

    pixel_values (B,channels,height,width) -> x (B,S,W).
    """
    strides, biased = [spec.patch_size] * 2, spec.bias
    one, two = spec.tokens > 0, spec.tokens > 1
    normed, normalise = spec.norm is not None, norm(spec.norm or NormSpec(1, 1.0))
    any_size, fit = spec.any_size, resized(spec.tokens, spec.grid)

    @script(domain, default_opset=op)
    def patch_embedding(
        pixel_values,
        tokens_0_weight,
        tokens_1_weight,
        position_weight,
        project_weight,
        project_bias,
        norm_weight,
        norm_bias,
    ):
        if biased:
            grid = op.Conv(pixel_values, project_weight, project_bias, strides=strides)
        else:
            grid = op.Conv(pixel_values, project_weight, strides=strides)
        flat = op.Reshape(grid, op.Constant(value_ints=[0, 0, -1]))  # (B, W, S - tokens)
        words = op.Transpose(flat, perm=[0, 2, 1])
        shape = op.Concat(op.Shape(grid, end=1), op.Constant(value_ints=[1, 1]), axis=0)
        if two:
            words = op.Concat(op.Expand(tokens_1_weight, shape), words, axis=1)
        if one:
            words = op.Concat(op.Expand(tokens_0_weight, shape), words, axis=1)
        if any_size:
            words = words + fit(position_weight, grid)  # (B, S, W)
        else:
            words = words + position_weight
        if normed:
            x = normalise(words, norm_weight, norm_bias)
        else:
            x = op.Identity(words)
        return x

    return patch_embedding


@cache
def _interpolation() -> OnnxFunction:
    """Matrix (new,old) whose product with `old` values is `new` ones between them, bicubic."""

    @script(domain, default_opset=op)
    def interpolation(old, new):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        places = op.Range(zero, old, one)
        unit = op.Equal(op.Unsqueeze(places, op.Constant(value_ints=[1])), places)  # (old, old)
        image = op.Unsqueeze(op.Cast(unit, to=1), op.Constant(value_ints=[0, 1]))
        size = op.Concat(op.Constant(value_ints=[1, 1]), new, op.Shape(unit, start=1), axis=0)
        resized = op.Resize(
            image,
            None,
            None,
            size,
            mode="cubic",
            coordinate_transformation_mode="half_pixel",
            cubic_coeff_a=-0.75,
        )
        matrix = op.Squeeze(resized, op.Constant(value_ints=[0, 1]))
        return matrix

    return interpolation


@cache
def resized(tokens: int, size: tuple[int, int]) -> OnnxFunction:
    """The table of `tokens` and then `size` positions, interpolated to those of a grid.

    table (tokens + size[0] * size[1],W), grid (B,W,rows,columns) -> (tokens + rows * columns,W), bicubic.
    Interpolated are not its wide rows but two unit matrices, which say what share each position has in each.
    """
    (high, wide), interpolation = size, _interpolation()

    @script(domain, default_opset=op)
    def resized(table, grid):
        down = interpolation(op.Constant(value_int=high), op.Shape(grid, start=2, end=3))  # (rows, high)
        across = interpolation(op.Constant(value_int=wide), op.Shape(grid, start=3))  # (columns, wide)
        down = op.Unsqueeze(down, op.Constant(value_ints=[1, 3]))
        both = down * op.Unsqueeze(across, op.Constant(value_ints=[0, 2]))  # (rows, columns, high, wide)
        shares = op.Reshape(both, op.Constant(value_ints=[-1, high * wide]))
        start, first = op.Constant(value_ints=[0]), op.Constant(value_ints=[tokens])
        places = op.MatMul(shares, op.Slice(table, first, op.Shape(table, end=1)))  # (rows * columns, W)
        fitting = op.Concat(op.Slice(table, start, first), places, axis=0)
        return fitting

    return resized


@cache
def sound_embedding(spec: LogMelSpec) -> OnnxFunction:
    """Two convolutions over the frames of a spectrogram, plus positions (Radford et al. 2022, 2.2).

    input_features (B,bands,frames) -> x (B,S,W), S half as many as frames.
    """
    act = activation(spec.activation)

    @script(domain, default_opset=op)
    def sound_embedding(
        input_features, first_weight, first_bias, second_weight, second_bias, position_weight
    ):
        frames = act(op.Conv(input_features, first_weight, first_bias, pads=[1, 1]))  # (B, W, frames)
        halved = act(op.Conv(frames, second_weight, second_bias, pads=[1, 1], strides=[2]))  # (B, W, S)
        x = op.Transpose(halved, perm=[0, 2, 1]) + position_weight  # (B, S, W)
        return x

    return sound_embedding
