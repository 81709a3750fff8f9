"""Running a bundle: numpy, ONNX Runtime and tokenizers, and nothing else."""

from txexport.errors import needed_for

with needed_for("running a bundle"):
    from txexport.runtime.model import Model, load

__all__ = ["Model", "load"]
