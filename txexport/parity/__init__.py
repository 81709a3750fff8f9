"""Proof that a bundle computes what its PyTorch original computes: whole tensors, every output.

`verify` is imported when it is used: reports are read and written without PyTorch and ONNX Runtime.
"""

from typing import TYPE_CHECKING

from txexport.parity.report import CaseReport, Report, TensorCheck

if TYPE_CHECKING:
    from txexport.parity.verifier import verify

__all__ = ["CaseReport", "Report", "TensorCheck", "verify"]


def __getattr__(name: str):
    if name != "verify":
        raise AttributeError(f"module 'txexport.parity' has no attribute '{name}'")
    from txexport.parity.verifier import verify

    return verify
