"""Proof that a bundle computes what its PyTorch original computes: whole tensors, every output.

`verify` and `compare` are imported when they are used: reports are read and written without PyTorch and ONNX
Runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from txexport.errors import needed_for
from txexport.verification.checks import CaseReport, TensorCheck
from txexport.verification.result import Report

if TYPE_CHECKING:
    from txexport.verification.answers.here import verify_here
    from txexport.verification.attestations.attest import attest
    from txexport.verification.attestations.check import verify_attestation
    from txexport.verification.comparison.compare import compare
    from txexport.verification.verifier import verify

__all__ = [
    "CaseReport",
    "Report",
    "TensorCheck",
    "attest",
    "compare",
    "verify",
    "verify_attestation",
    "verify_here",
]

_HOMES = {
    "attest": "txexport.verification.attestations.attest",
    "compare": "txexport.verification.comparison.compare",
    "verify": "txexport.verification.verifier",
    "verify_attestation": "txexport.verification.attestations.check",
    "verify_here": "txexport.verification.answers.here",
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'txexport.verification' has no attribute '{name}'")
    with needed_for(name, "verify" if name in ("attest", "verify") else None):
        return getattr(import_module(_HOMES[name]), name)
