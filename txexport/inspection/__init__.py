"""The content of a checkpoint or a bundle, and the costs of running it."""

from txexport.errors import needed_for

with needed_for("inspect"):
    from txexport.inspection.inspection import inspect

__all__ = ["inspect"]
