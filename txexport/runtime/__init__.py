"""Running a bundle: numpy, tokenizers and an engine, which loading a bundle imports; nothing else."""

from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.model import Model, load

__all__ = ["Model", "PrefixStore", "load"]
