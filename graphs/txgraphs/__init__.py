"""Transformer components as onnxscript graph functions. Each file has its PyTorch twin in txmodels.

A component with weights takes its spec, which ends its switches, the place `g` where it stands, and then the
arguments of the twin's `forward`, of which some may be absent; what weights it asks for become the last
inputs of its function. One without weights is a function of the graph, or a factory of them, to be called by
`g.call`. Shape letters are those of txmodels. A constant `value_float` is a number of the graph's type,
whatever that is; one that must be float32 is a `value`, a tensor.
"""

from onnxscript.values import Opset

OPSET = 24
DOMAIN = "txexport"

op = Opset("", OPSET)
domain = Opset(DOMAIN, 1)
