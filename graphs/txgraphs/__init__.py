"""Transformer components as onnxscript graph functions. Each file has its PyTorch twin in txmodels.

A component with weights takes its spec, then its switches, the place `g` in the graph, and then the arguments
of the twin's `forward`, some of which may be absent; the weights that it requests become the last inputs of
its function. A component without weights is a function of the graph, or a factory of such functions, called
by `g.call`. Shape letters are those of txmodels. A constant `value_float` has the number type of the graph;
one that must be float32 is a `value`, a tensor.
"""

from onnxscript.values import Opset

OPSET = 24
DOMAIN = "txexport"

op = Opset("", OPSET)
domain = Opset(DOMAIN, 1)
