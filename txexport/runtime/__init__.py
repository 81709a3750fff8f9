"""Running a bundle: numpy, tokenizers and an engine, which loading a bundle imports; nothing else."""

from txexport.runtime.model import Model, load

__all__ = ["Model", "load"]
