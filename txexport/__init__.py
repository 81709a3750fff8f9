"""Transformer checkpoints to ONNX, proved equal to their PyTorch originals.

`export` writes a bundle, `export_traced` one of a class without a family, `quantize` adds a number format to
one, `to_openvino` writes one in OpenVINO's format, `verify` proves it, and `verify_here` does so again where
it runs. `attest` states that as an in-toto statement, with which `verify_attestation` compares a bundle.
`load` gives it as a Model that runs (`load_traced` as a TracedModel), `inspect` counts what a checkpoint or a
bundle holds and costs, `compare` holds any two models against each other, `compare_dtypes` the number formats
of one bundle, `bench` tells how to run one fastest, `serve` answers over HTTP. None of them is imported
before it is used, so that `import txexport` brings in neither PyTorch nor onnxscript nor ONNX Runtime.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from txexport.errors import TxexportError
from txexport.support import telemetry

if TYPE_CHECKING:
    from txexport.benchmark import bench
    from txexport.dtype_comparison import compare_dtypes
    from txexport.exporter import export, quantize, to_openvino
    from txexport.inspection import inspect
    from txexport.runtime import Model, PrefixStore, TracedModel, load, load_traced
    from txexport.server import serve
    from txexport.verification import attest, compare, verify, verify_attestation, verify_here
    from txexport.verification.traced import export_traced

__all__ = [
    "Model",
    "PrefixStore",
    "TracedModel",
    "TxexportError",
    "attest",
    "bench",
    "compare",
    "compare_dtypes",
    "export",
    "export_traced",
    "inspect",
    "load",
    "load_traced",
    "quantize",
    "serve",
    "to_openvino",
    "verify",
    "verify_attestation",
    "verify_here",
]

_HOMES = {
    "Model": "txexport.runtime",
    "PrefixStore": "txexport.runtime",
    "TracedModel": "txexport.runtime",
    "attest": "txexport.verification",
    "bench": "txexport.benchmark",
    "compare": "txexport.verification",
    "compare_dtypes": "txexport.dtype_comparison",
    "export": "txexport.exporter",
    "export_traced": "txexport.verification.traced",
    "inspect": "txexport.inspection",
    "load": "txexport.runtime",
    "load_traced": "txexport.runtime",
    "quantize": "txexport.exporter",
    "serve": "txexport.server",
    "to_openvino": "txexport.exporter",
    "verify": "txexport.verification",
    "verify_attestation": "txexport.verification",
    "verify_here": "txexport.verification",
}


telemetry.turn_off()  # here, since after this anybody may import ONNX Runtime


def __getattr__(name: str):
    if name == "__version__":  # pyproject.toml has it, and nothing else
        return version("txexport")
    if name not in _HOMES:
        raise AttributeError(f"module 'txexport' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
