"""Pointwise non-linearities."""

from onnxscript import OnnxFunction, script

from txexport.spec import Activation
from txgraphs import domain, op


@script(domain, default_opset=op)
def gelu(x):
    y = op.Gelu(x)
    return y


@script(domain, default_opset=op)
def gelu_tanh(x):
    y = op.Gelu(x, approximate="tanh")
    return y


@script(domain, default_opset=op)
def relu(x):
    y = op.Relu(x)
    return y


@script(domain, default_opset=op)
def quick_gelu(x):
    y = x * op.Sigmoid(x * op.Constant(value_float=1.702))
    return y


@script(domain, default_opset=op)
def silu(x):
    y = op.Swish(x)
    return y


@script(domain, default_opset=op)
def tanh(x):
    y = op.Tanh(x)
    return y


@script(domain, default_opset=op)
def relu_squared(x):
    positive = op.Relu(x)
    y = positive * positive
    return y


def activation(kind: Activation) -> OnnxFunction:
    """The function x (...) -> y (...) of `kind`."""
    return {
        Activation.GELU: gelu,
        Activation.GELU_TANH: gelu_tanh,
        Activation.RELU: relu,
        Activation.QUICK_GELU: quick_gelu,
        Activation.SILU: silu,
        Activation.TANH: tanh,
        Activation.RELU_SQUARED: relu_squared,
    }[kind]


@script(domain, default_opset=op)
def softplus(x):
    """log(1 + exp(x)), as exactly where exp(x) is small."""
    zero, one = op.CastLike(op.Constant(value_float=0.0), x), op.CastLike(op.Constant(value_float=1.0), x)
    small = op.Exp(op.Neg(op.Abs(x)))
    more = op.Add(one, small)  # loses the last bits of what is small, which the quotient gives back
    lost = op.Equal(more, one)
    quotient = op.Log(more) * small / op.Where(lost, one, more - one)
    y = op.Max(x, zero) + op.Where(lost, small, quotient)
    return y
