"""Turns off the telemetry of runtimes, unless the user has configured it."""

import contextlib
import os
import sys
from collections.abc import Iterator

VARIABLE = "ORT_DISABLE_TELEMETRY"
OPENVINO = "openvino_telemetry"  # a package, and in the user's folder the file with his choice


def turn_off() -> None:
    """Turn ONNX Runtime's telemetry off for this process and those that it starts.

    ONNX Runtime reads VARIABLE once, when it is imported: then it writes no identifier and no event. In a
    process that imported it before txexport they are written already; what is left is to stop further
    events by its own function. Who has set VARIABLE, to whatever value, keeps it.
    """
    if VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = "1"
    stop = getattr(sys.modules.get("onnxruntime"), "disable_telemetry_events", None)
    if stop is not None:
        stop()


@contextlib.contextmanager
def openvino_untold() -> Iterator[None]:
    """Import OpenVINO within this as if its package of telemetry were not installed, which it allows.

    With that package, its import alone writes an identifier and tells of itself. A user who has chosen by
    `opt_in_out`, OpenVINO's own command, keeps his choice.
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
