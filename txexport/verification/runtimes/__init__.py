"""The runtimes that verify knows, and the choice among them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from txexport.bundle import Manifest
from txexport.errors import InputError, UnsupportedError
from txexport.runtime.engines.onnxruntime import device_name
from txexport.verification.runtimes import node, onnxruntime, openvino, reference, web
from txexport.verification.runtimes.runtime import Runtime

ALL = "all"
RUNTIMES = {
    runtime.name: runtime
    for runtime in (
        onnxruntime.OPTIMIZED,
        onnxruntime.UNOPTIMIZED,
        reference.RUNTIME,
        openvino.RUNTIME,
        node.RUNTIME,
        web.RUNTIME,
    )
}


def choose(
    wanted: str | Sequence[str], folder: Path, manifest: Manifest, device: str | None
) -> dict[Runtime, str | None]:
    """The wanted runtimes, and, where one of all cannot run the bundle here, why.

    Raises InputError for a name that is not known and for a device that a runtime has not, UnsupportedError
    for a named runtime that is not installed or cannot take the bundle.
    """
    everything = wants_all(wanted)
    on_cpu = device is None or device_name(device) == "cpu"
    result: dict[Runtime, str | None] = {}
    for name in RUNTIMES if everything else _names(wanted):
        if name not in RUNTIMES:
            raise InputError(f"runtime '{name}' is not known; expected {ALL} or one of {', '.join(RUNTIMES)}")
        runtime = RUNTIMES[name]
        why = runtime.missing() or runtime.refuses(folder, manifest)
        if not everything and why is not None:
            raise UnsupportedError(f"{folder} cannot be tried on {name}: {why}")
        if not everything and not on_cpu and not runtime.devices:
            raise InputError(f"runtime '{name}' runs on the CPU only; leave out --device {device}")
        result[runtime] = why
    if not result:
        raise InputError(f"no runtime is named; expected {ALL} or some of {', '.join(RUNTIMES)}")
    return result


def wants_all(wanted: str | Sequence[str]) -> bool:
    """Whether all runtimes are meant, of which some may be missing."""
    return ALL in _names(wanted)


def versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of what was installed for these runtimes."""
    return {key: value for name in names for key, value in RUNTIMES[name].versions().items()}


def _names(wanted: str | Sequence[str]) -> list[str]:
    return [wanted] if isinstance(wanted, str) else list(wanted)
