"""Running a bundle: numpy, ONNX Runtime and tokenizers, and nothing else."""

from txexport.runtime.model import Model, load

__all__ = ["Model", "load"]
