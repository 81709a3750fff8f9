"""What a checkpoint or a bundle holds and costs."""

from txexport.errors import needed_for

with needed_for("inspect"):
    from txexport.inspection.inspection import inspect

__all__ = ["inspect"]
