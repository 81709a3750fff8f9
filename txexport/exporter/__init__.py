"""From a checkpoint to a bundle.

`export` writes one, `quantize` adds a number format to one; neither needs PyTorch. Both are imported when
used, so that importing another module of this folder needs no optional library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from txexport.errors import needed_for

if TYPE_CHECKING:
    from txexport.exporter.adding import quantize
    from txexport.exporter.exporter import export

__all__ = ["export", "quantize"]

_HOMES = {"export": "txexport.exporter.exporter", "quantize": "txexport.exporter.adding"}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'txexport.exporter' has no attribute '{name}'")
    with needed_for("export"):
        return getattr(import_module(_HOMES[name]), name)
