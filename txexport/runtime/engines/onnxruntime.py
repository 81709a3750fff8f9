"""The ONNX Runtime engine, on the devices of this machine."""

import contextlib
import ctypes
import functools
import io
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from txexport import bundle
from txexport.bundle.manifest import AGAINST_SATURATION, UNROUNDED, Manifest
from txexport.contracts import Port, roles
from txexport.contracts.stage import AFTER
from txexport.errors import BundleError, InputError, first_line, install, warn
from txexport.runtime import cpus
from txexport.runtime.engines import FLOAT32, Opened
from txexport.runtime.engines.captures import Captures
from txexport.runtime.engines.kernels import Profile, kernels
from txexport.runtime.engines.moves import Moves
from txexport.runtime.session import ON_CUDA, Bound, Session

CPUINFO = Path("/proc/cpuinfo")
WARNINGS, FATAL_ONLY = 2, 4  # ONNX Runtime's log severities; its exceptions are reported in one line

EXACT_ARENA = {"arena_extend_strategy": "kSameAsRequested"}  # caches are large, and sizes differ
CPU, SUFFIX = "CPUExecutionProvider", "ExecutionProvider"
CUDA = "cuda"
NAMED = 3  # slow products that a warning lists


class OnnxRuntime:
    """A session of ONNX Runtime as an Engine. With `captures`, runs that repeat become CUDA graphs."""

    def __init__(self, session: ort.InferenceSession, captures: Captures | None = None):
        self.session, self.captures = session, captures
        self.inputs = [_port(argument) for argument in session.get_inputs()]
        self.outputs = [_port(argument) for argument in session.get_outputs()]

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See Engine."""
        run = self.session.run if self.captures is None else self.captures.run
        return dict(zip((port.name for port in self.outputs), run(None, feeds), strict=True))

    def value(self, array: np.ndarray, memory: str) -> ort.OrtValue:
        """See Engine."""
        return ort.OrtValue.ortvalue_from_numpy(array, memory, 0)

    def bind(
        self,
        inputs: Mapping[str, ort.OrtValue],
        outputs: Mapping[str, ort.OrtValue],
        wanted: Sequence[str],
        memory: str,
        runs: dict[Any, Any] | None = None,
    ) -> Bound:
        """See Engine."""
        if self.captures is not None:
            return self.captures.bind(inputs, outputs, wanted, memory, runs)
        binding = self.session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in outputs.items():
            binding.bind_ortvalue_output(name, value)

        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, ort.OrtValue]:
            for name, array in feeds.items():
                binding.bind_cpu_input(name, array)
            for name in wanted:
                binding.bind_output(name, memory)
            self.session.run_with_iobinding(binding)
            return dict(zip(wanted, binding.get_outputs()[len(outputs) :], strict=True))

        return run


def _port(argument: ort.NodeArg) -> Port:
    """An input or output as a manifest lists it."""
    kind = argument.type.removeprefix("tensor(").removesuffix(")")
    return Port(argument.name, kind, ["" if dim is None else dim for dim in argument.shape])


def open_graphs(
    folder: Path, manifest: Manifest, device: str | None, threads: int | None, precision: str
) -> Opened:
    """See engines.Open; opens the native graphs."""
    if precision != FLOAT32:
        raise InputError(f"ONNX Runtime computes in {FLOAT32}, not in {precision}; choose engine openvino")
    bundle.check_runs(folder, manifest)
    if (why := manifest.refused_by(ort.__version__)) is not None:
        raise BundleError(f"{folder} cannot be run: {why}")
    files = {role: folder / graph.file for role, graph in manifest.graphs.items() if role != roles.SHARED}
    after = {stage.role: files.pop(stage.role) for stage in manifest.running_order if stage.when == AFTER}
    options = manifest.session_options
    where, sessions = open_sessions(
        files,
        device,
        threads,
        options,
        integers=manifest.quantized,
        capture=[role for role in files if manifest.graphs[role].captured],
    )

    def later(role: str) -> Session:
        return open_session(after[role], where, threads, options, integers=manifest.quantized)

    return Opened(manifest, where, sessions, later)


def open_session(
    path: Path,
    device: str,
    threads: int | None,
    config: Mapping[str, str] = UNROUNDED,
    *,
    optimize: bool = True,
    integers: bool = False,
    capture: bool = False,
) -> Session:
    """A session of ONNX Runtime, with its graph optimisations if `optimize`.

    `config` are session options by name, as in a manifest; by default no activations are quantised. With
    `integers`, warns of quantised products that run in float on the CPU. With `capture`, CUDA captures runs
    that repeat: see `captures`.

    Raises InputError for a device that is not available, BundleError for a graph that cannot be loaded.
    """
    options = session_options(config)
    if threads is not None:
        options.intra_op_num_threads = int(threads)
    elif (processors := cpus.fewer()) is not None:
        options.intra_op_num_threads = processors
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    device = _known(device)
    provider, capture = devices()[device], capture and device == CUDA
    with tempfile.TemporaryDirectory(prefix="txexport-") if integers else contextlib.nullcontext() as folder:
        profile = None if folder is None or provider != CPU else Profile(options, folder)
        try:
            with _silent():
                try:
                    session = ort.InferenceSession(path, options, providers=providers(device, capture))
                except Exception as error:  # ONNX Runtime's exceptions share no base class
                    if not capture:
                        raise
                    warn(f"{path.name} runs without CUDA graphs: {first_line(error)}")
                    capture = False
                    session = ort.InferenceSession(path, options, providers=providers(device))
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            message = first_line(error)
            if "INVALID_PROTOBUF" in message:
                message = "it is no ONNX file, or it is damaged"
            raise BundleError(f"{path} cannot be loaded: {message}") from None
        session.disable_fallback()  # it would run on the CPU what a device refuses
        opened = OnnxRuntime(session, Captures(session) if capture else None)
        if profile is not None and profile.slow_products(session, opened.inputs):
            _warn_of_slow_products(path)
    if provider not in session.get_providers():
        needs = f"{provider} here"
        if device == CUDA:
            needs = "CUDA here; it needs a device, CUDA 13 and cuDNN 9"
        raise InputError(f"ONNX Runtime cannot start {needs}")
    moves = Moves([("CUDAExecutionProvider", EXACT_ARENA)], "cuda") if device in ON_CUDA else None
    return Session(opened, device, moves=moves)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppress ONNX Runtime's log of execution providers, which session options do not control.

    The default severity cannot be read, so that of a new process is set afterwards.
    """
    ort.set_default_logger_severity(FATAL_ONLY)
    try:
        yield
    finally:
        ort.set_default_logger_severity(WARNINGS)


def session_options(config: Mapping[str, str]) -> ort.SessionOptions:
    """The options of every session, and the entries that change results; see `open_session`."""
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    if saturates():
        options.add_session_config_entry(AGAINST_SATURATION, "1")
    for name, value in config.items():
        options.add_session_config_entry(name, value)
    return options


def _warn_of_slow_products(path: Path) -> None:
    result = kernels(path)
    names, more = result.slow[:NAMED], len(result.slow) - NAMED
    others = f" and {more} more" if more > 0 else ""
    count = f"{len(result.slow)} of {result.fast + len(result.slow)} quantised products"
    warn(
        f"{count} of {path.name} run as float ones, which is slow: {', '.join(names)}{others}; "
        "txexport inspect --kernels lists them"
    )


@functools.cache
def saturates() -> bool:
    """Return whether sums of 8-bit products may saturate here with ONNX Runtime's fast kernels.

    This concerns x86 processors without VNNI, and unknown ones: onnxruntime issue 14642.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        flags = CPUINFO.read_text()
    except OSError:
        return True
    return "vnni" not in flags and "amx_int8" not in flags


def cuda_present() -> bool:
    """Return whether ONNX Runtime was built for CUDA, and a driver with a device is installed."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return False
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


def devices() -> dict[str, str]:
    """The execution providers of this ONNX Runtime, by name: "cpu", "cuda", "openvino" and so on."""
    return {name.removesuffix(SUFFIX).lower(): name for name in reversed(ort.get_available_providers())}


def device_name(device: str) -> str:
    """The name of a device as in `devices`, available or not: "cuda" for "CUDAExecutionProvider"."""
    return device.lower().removesuffix(SUFFIX.lower())


def providers(device: str, capture: bool = False) -> list:
    """The execution providers for one of `devices`: its own, then the CPU's for unsupported operators.

    With `capture`, CUDA's provider captures runs.
    """
    provider = devices()[device]
    # TensorFloat-32 keeps 10 bits of a float32's 23: faster, and no longer equal.
    settings = {"use_tf32": 0} | ({"enable_cuda_graph": 1} if capture else {})
    wanted: list = [(provider, settings)] if device == CUDA else [provider]
    return wanted if provider == CPU else [*wanted, CPU]


def _known(device: str) -> str:
    """The name of a device as in `devices`. Raises InputError for a device that is not available."""
    name = device_name(device)
    if name not in devices():
        advice = {CUDA: f"; {install('gpu')} brings one", "gpu": f"; NVIDIA's GPUs are {CUDA}"}
        raise InputError(
            f"device '{device}' is not there; this ONNX Runtime has {', '.join(devices())}"
            f"{advice.get(name, '')}"
        )
    return name


def open_sessions(
    files: Mapping[str, Path],
    device: str | None,
    threads: int | None,
    config: Mapping[str, str] = UNROUNDED,
    *,
    optimize: bool = True,
    integers: bool = False,
    capture: Sequence[str] = (),
) -> tuple[str, dict[str, Session]]:
    """The device, and a session for each file by role, as `open_session` makes them; `capture` are roles.

    `device` is one of `devices()`, or ONNX Runtime's name for it; None is "cuda" where a driver responds and
    ONNX Runtime can start it, otherwise "cpu"; a driver without CUDA's libraries causes a warning.
    """
    name = None if device is None else _known(device)

    def opened(device: str) -> tuple[str, dict[str, Session]]:
        return device, {
            role: open_session(
                path,
                device,
                threads,
                config,
                optimize=optimize,
                integers=integers,
                capture=role in capture,
            )
            for role, path in files.items()
        }

    if name in ON_CUDA or (name is None and cuda_present()):
        # Loads the libraries of PyTorch's or NVIDIA's wheels; it prints those that are missing.
        with contextlib.redirect_stdout(io.StringIO()):
            ort.preload_dlls()
    if name is None and cuda_present():
        try:
            return opened("cuda")
        except InputError as error:
            warn(f"running on the CPU: {error}")
    return opened(name or "cpu")
