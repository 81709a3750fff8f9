"""Collects the inputs of matrix products over calibration texts, in ONNX Runtime, without PyTorch."""

from txexport.errors import needed_for

with needed_for("calibration"):
    from txexport.exporter.calibration.inputs import check_reads
    from txexport.exporter.calibration.moments import Moments, Reading, Tell, sha256_of

__all__ = ["Moments", "Reading", "Tell", "check_reads", "sha256_of"]
