"""What a checkpoint or a bundle holds and costs."""

from txexport.inspection.inspection import inspect

__all__ = ["inspect"]
