"""Turns off the telemetry of runtimes, unless the user has configured it."""

import contextlib
import os
import sys
from collections.abc import Iterator

VARIABLE = "ORT_DISABLE_TELEMETRY"
OPENVINO = "openvino_telemetry"  # the package, and the file of the user's choice in the home folder


def turn_off() -> None:
    """Turn ONNX Runtime's telemetry off for this process and those that it starts.

    ONNX Runtime reads VARIABLE once, at import; then it writes no identifier and no event. If the process
    imported it before txexport, they are written already, and its own function stops further events. A user's
    own value of VARIABLE is kept.
    """
    if VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = "1"
    stop = getattr(sys.modules.get("onnxruntime"), "disable_telemetry_events", None)
    if stop is not None:
        stop()


@contextlib.contextmanager
def openvino_without_telemetry() -> Iterator[None]:
    """Context in which OpenVINO is imported without its telemetry package, which is optional.

    With that package, the import alone writes an identifier and reports itself. If the user has run
    `opt_in_out`, OpenVINO's own command, that choice is kept.
    """
    chosen = os.path.exists(os.path.expanduser(f"~/intel/{OPENVINO}"))
    if chosen or OPENVINO in sys.modules:
        yield
        return
    sys.modules[OPENVINO] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[OPENVINO]
