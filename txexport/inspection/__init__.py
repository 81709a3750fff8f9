"""The content of a checkpoint or a bundle, and the costs of running it.

`inspect` is imported when it is used, so that counting operations needs no optional library.
"""

from typing import TYPE_CHECKING

from txexport.errors import needed_for

if TYPE_CHECKING:
    from txexport.inspection.inspection import inspect

__all__ = ["inspect"]


def __getattr__(name: str):
    if name != "inspect":
        raise AttributeError(f"module 'txexport.inspection' has no attribute '{name}'")
    with needed_for("inspect"):
        from txexport.inspection.inspection import inspect
    return inspect
