"""Runs bundles: needs numpy and tokenizers, and an engine, which is imported when a bundle is loaded."""

from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.model import Model, load

__all__ = ["Model", "PrefixStore", "load"]
