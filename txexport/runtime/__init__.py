"""Runs bundles: needs numpy and tokenizers, and an engine, which is imported when a bundle is loaded."""

from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.model import Model, load
from txexport.runtime.tasks.placed_objects import placed_objects
from txexport.runtime.traced_model import TracedModel, load_traced

__all__ = ["Model", "PrefixStore", "TracedModel", "load", "load_traced", "placed_objects"]
