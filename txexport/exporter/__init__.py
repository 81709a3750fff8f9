"""From a checkpoint to a bundle.

`export` needs no PyTorch.
"""

from txexport.exporter.exporter import export

__all__ = ["export"]
