"""Transformer components as onnxscript graph functions. Each file has its PyTorch twin in txmodels.

A factory takes the spec and ends its switches; the function it returns takes the arguments of the
twin's `forward`, then its parameters in order of declaration. An argument or parameter that a switch
leaves out is absent at the call. Shape letters are those of txmodels.
"""

from onnxscript.values import Opset

OPSET = 24
DOMAIN = "txexport"

op = Opset("", OPSET)
domain = Opset(DOMAIN, 1)
