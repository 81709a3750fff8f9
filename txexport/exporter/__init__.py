"""From a checkpoint to a bundle.

`export` writes one, `quantize` adds a number format to one, `to_openvino` writes one in OpenVINO's format;
none of them needs PyTorch. They are imported when used, so that importing another module of this folder
needs no optional library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from txexport.errors import needed_for

if TYPE_CHECKING:
    from txexport.exporter.adding import quantize
    from txexport.exporter.exporter import export
    from txexport.exporter.openvino_model import to_openvino

__all__ = ["export", "quantize", "to_openvino"]

_HOMES = {
    "export": "txexport.exporter.exporter",
    "quantize": "txexport.exporter.adding",
    "to_openvino": "txexport.exporter.openvino_model",
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'txexport.exporter' has no attribute '{name}'")
    with needed_for("export"):
        return getattr(import_module(_HOMES[name]), name)
