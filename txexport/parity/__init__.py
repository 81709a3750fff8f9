"""Proof that a bundle computes what its PyTorch original computes: whole tensors, every output."""

from txexport.parity.report import CaseReport, Report, TensorCheck
from txexport.parity.verifier import verify

__all__ = ["CaseReport", "Report", "TensorCheck", "verify"]
