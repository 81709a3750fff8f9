"""From a checkpoint to a bundle.

`export` writes one, `quantize` adds a number format to one; neither needs PyTorch.
"""

from txexport.errors import needed_for

with needed_for("export"):
    from txexport.exporter.adding import quantize
    from txexport.exporter.exporter import export

__all__ = ["export", "quantize"]
