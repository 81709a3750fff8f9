"""Transformer checkpoints to ONNX, proved equal to their PyTorch originals.

`export` writes a bundle, `verify` proves it, `load` runs it. None of them is imported before it is used, so
that `import txexport` brings in neither PyTorch nor onnxscript nor ONNX Runtime.
"""

from importlib import import_module

__all__ = ["export", "load", "verify"]

_HOMES = {"export": "txexport.exporter", "load": "txexport.runtime", "verify": "txexport.parity"}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'txexport' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
