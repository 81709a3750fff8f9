"""The vectors of sounds, without padding."""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op


@cache
def real_vectors(consecutive: int) -> OnnxFunction:
    """features (I,N,W), mask (I,N*consecutive) -> y (M,W): the features of real vectors alone, in order."""

    @script(domain, default_opset=op)
    def real_vectors(features, mask):
        first, axis = op.Constant(value_ints=[consecutive - 1]), op.Constant(value_ints=[1])
        step, every = op.Constant(value_ints=[consecutive]), op.Constant(value_ints=[-1])
        last = op.Slice(mask, first, op.Shape(mask, start=1, end=2), axis, step)  # (I, N)
        real = op.Greater(last, op.CastLike(op.Constant(value_int=0), last))
        rows = op.Reshape(features, op.Concat(every, op.Shape(features, start=2, end=3), axis=0))  # (I*N, W)
        y = op.Gather(rows, op.Reshape(op.NonZero(op.Reshape(real, every)), every))  # (M, W)
        return y

    return real_vectors
