"""From a checkpoint to a bundle.

`export` needs no PyTorch.
"""

from txexport.errors import needed_for

with needed_for("export"):
    from txexport.exporter.exporter import export

__all__ = ["export"]
