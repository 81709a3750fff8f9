"""Sessions of graphs whose layers share weights in 8 bits, on processors whose products may saturate."""

from pathlib import Path

import onnxruntime as ort

from txexport.bundle.manifest import FOLDED
from txexport.errors import BundleError, warn

SHARED_WEIGHT = "Attempt to replace the existing tensor"  # in the error for a weight that is converted twice


def started(path: Path, options: ort.SessionOptions, providers: list) -> tuple[ort.InferenceSession, bool]:
    """A session, and true if it multiplies floats in place of 8-bit integers.

    On processors whose 8-bit products may saturate, ONNX Runtime converts each weight, and fails at a weight
    that several products use, as in ALBERT. Raises BundleError for int8-fast, whose graphs name products of
    integers.
    """
    try:
        return ort.InferenceSession(path, options, providers=providers), False
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        if SHARED_WEIGHT not in str(error):
            raise
    options.add_session_config_entry(FOLDED, "1")
    why = "on a processor without VNNI, ONNX Runtime cannot compute with int8 weights that layers share"
    try:
        session = ort.InferenceSession(path, options, providers=providers)
    except Exception as error:
        if SHARED_WEIGHT not in str(error):
            raise
        raise BundleError(f"{path} cannot be loaded: {why}; export with --dtype int8 or int4") from None
    warn(f"{path.name} computes in float32, more slowly: {why}")
    return session, True
