"""Proof that a bundle computes what its PyTorch original computes: whole tensors, every output.

`verify` and `compare` are imported when they are used: reports are read and written without PyTorch and ONNX
Runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from txexport.parity.report import CaseReport, Report, TensorCheck

if TYPE_CHECKING:
    from txexport.parity.comparison import compare
    from txexport.parity.verifier import verify

__all__ = ["CaseReport", "Report", "TensorCheck", "compare", "verify"]

_HOMES = {"compare": "txexport.parity.comparison", "verify": "txexport.parity.verifier"}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'txexport.parity' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
