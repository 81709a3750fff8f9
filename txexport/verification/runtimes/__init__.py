"""The runtimes of verify, and the choice among them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from txexport.bundle.manifest import Manifest
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
        web.WEBGPU,
    )
}


def choose(
    wanted: str | Sequence[str], folder: Path, views: Mapping[str, Manifest], device: str | None
) -> dict[str, dict[Runtime, str | None]]:
    """The chosen runtimes for each variant, with the reason why one cannot run.

    Raises InputError for an unknown name and for a device that a runtime lacks, UnsupportedError for a named
    runtime that is not installed or can run none of the graphs.
    """
    everything = wants_all(wanted)
    on_cpu = device is None or device_name(device) == "cpu"
    result: dict[str, dict[Runtime, str | None]] = {graphs: {} for graphs in views}
    for name in RUNTIMES if everything else _names(wanted):
        if name not in RUNTIMES:
            raise InputError(f"runtime '{name}' is not known; expected {ALL} or one of {', '.join(RUNTIMES)}")
        runtime = RUNTIMES[name]
        missing = runtime.missing()
        reasons = {graphs: missing or runtime.refuses(folder, view) for graphs, view in views.items()}
        if not everything and None not in reasons.values():
            raise UnsupportedError(f"{folder} cannot be tried on {name}: {next(iter(reasons.values()))}")
        if not everything and not on_cpu and not runtime.devices:
            raise InputError(f"runtime '{name}' runs on the CPU only; leave out --device {device}")
        for graphs, reason in reasons.items():
            result[graphs][runtime] = reason
    if not any(result.values()):
        raise InputError(f"no runtime is named; expected {ALL} or some of {', '.join(RUNTIMES)}")
    return result


def wants_all(wanted: str | Sequence[str]) -> bool:
    """True if all installed runtimes are meant."""
    return ALL in _names(wanted)


def versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of the packages of these runtimes."""
    return {key: value for name in names for key, value in RUNTIMES[name].versions().items()}


def _names(wanted: str | Sequence[str]) -> list[str]:
    return [wanted] if isinstance(wanted, str) else list(wanted)
