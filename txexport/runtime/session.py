"""ONNX Runtime sessions, and values that stay where the session computes."""

import contextlib
import ctypes
import io
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort

from txexport.errors import BundleError, InputError, first_line, shown

FATAL_ONLY = 4  # ONNX Runtime's severity: what it raises is told in one line, and the rest is no news

THREADS = 1024  # at most, of one operator
CPU, SUFFIX = "CPUExecutionProvider", "ExecutionProvider"

TYPES = {"tensor(int64)": np.int64, "tensor(float)": np.float32}


class Session:
    """One graph on one device: "cpu", "cuda", or another of `devices()`.

    `session` is ONNX Runtime's, or what has those of its methods that are called here; `runtime` is its name
    in errors. `memory` is where values are left between runs: CUDA's own for what runs there, and else the
    CPU's, from which ONNX Runtime moves them.
    """

    def __init__(self, session: ort.InferenceSession, device: str, runtime: str = "ONNX Runtime"):
        self.session, self.device, self.runtime = session, device, runtime
        self.memory = "cuda" if device in ("cuda", "tensorrt") else "cpu"
        self.inputs = {port.name: port for port in self.session.get_inputs()}
        self.outputs = {port.name: port for port in self.session.get_outputs()}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output by name, for inputs of which integers may have any width. Errors as `fit`."""
        return self.run_fitted(self.fit(inputs))

    def run_fitted(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output by name, for what `fit` gave. Raises InputError where the runtime refuses."""
        try:
            return dict(zip(self.outputs, self.session.run(None, inputs), strict=True))
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise InputError(f"{self.runtime} refused: {first_line(error)}") from None

    def fit(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs by name in the types of the graph's.

        Raises InputError for an input that is unknown, missing, of another type or shape, or below 0.
        """
        unknown, missing = inputs.keys() - self.inputs.keys(), self.inputs.keys() - inputs.keys()
        if unknown or missing:
            said = [f"unknown {', '.join(sorted(unknown))}"] * bool(unknown)
            said += [f"missing {', '.join(sorted(missing))}"] * bool(missing)
            raise InputError(f"inputs do not fit the graph: {'; '.join(said)}")
        sizes: dict[str, tuple[int, str]] = {}
        return {name: self._fit(name, array, sizes) for name, array in inputs.items()}

    def _fit(self, name: str, array: np.ndarray, sizes: dict[str, tuple[int, str]]) -> np.ndarray:
        """`array` in the type of the input `name`; `sizes` are of the dimensions seen, and whose."""
        port = self.inputs[name]
        try:
            array = np.asarray(array)
        except (TypeError, ValueError, OverflowError) as error:  # rows of several lengths, or no numbers
            raise InputError(f"input '{name}' is no array: {first_line(error)}") from None
        if port.type == "tensor(int64)" and np.issubdtype(array.dtype, np.integer):
            array = array.astype(np.int64, copy=False)
        pairs = list(zip(array.shape, port.shape, strict=False))
        same = len(port.shape) == array.ndim and all(a == b or isinstance(b, str) for a, b in pairs)
        if not same or TYPES[port.type] != array.dtype:
            dims = ", ".join(str(dim) for dim in port.shape)
            wanted = np.dtype(TYPES[port.type]).name
            raise InputError(f"input '{name}' is {array.dtype} {array.shape}, expected {wanted} ({dims})")
        if array.dtype == np.int64 and array.size and (least := array.min()) < 0:
            raise InputError(f"input '{name}' has {least}, expected 0 or more")  # it would count from the end
        for found, dim in pairs:
            size, owner = sizes.setdefault(dim, (found, name))
            if size != found:
                raise InputError(f"{dim} is {found} in input '{name}', but {size} in '{owner}'")
        return array

    def value(self, array: np.ndarray) -> ort.OrtValue:
        """`array` in the session's memory; the CPU's is shared with the array."""
        return ort.OrtValue.ortvalue_from_numpy(array, self.memory, 0)

    def run_values(
        self, inputs: Mapping[str, ort.OrtValue], wanted: Sequence[str]
    ) -> dict[str, ort.OrtValue]:
        """The outputs `wanted`, left in the session's memory."""
        binding = self.session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name in wanted:
            binding.bind_output(name, self.memory)
        self.run_bound(binding)
        return dict(zip(wanted, binding.get_outputs(), strict=True))

    def run_bound(self, binding: ort.IOBinding) -> None:
        """Run on what `binding` binds. Raises InputError where the runtime refuses."""
        try:
            self.session.run_with_iobinding(binding)
        except Exception as error:  # as above
            raise InputError(f"{self.runtime} refused: {first_line(error)}") from None


def finite(outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """`outputs`, by name. Raises InputError where one has NaN or infinity, of which no answer can be made."""
    for name, array in outputs.items():
        if not np.isfinite(array).all():
            raise InputError(
                f"output '{name}' has numbers that are not finite; see with txexport verify whether the "
                "weights are at fault, or else the input"
            )
    return outputs


def open_session(path: Path, device: str, threads: int | None, *, optimize: bool = True) -> Session:
    """A session of ONNX Runtime, which rewrites the graph for speed where it may `optimize`.

    Raises InputError for a device that is not there, BundleError for a graph that cannot be loaded.
    """
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    if threads is not None:
        if not 0 <= threads <= THREADS:
            raise InputError(f"threads is {shown(threads)}, expected a whole number from 0 to {THREADS}")
        options.intra_op_num_threads = int(threads)
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    device = _known(device)
    provider = devices()[device]
    # TensorFloat-32 keeps 10 bits of a float32's 23: faster, and no longer equal.
    wanted: list = [(provider, {"use_tf32": 0})] if device == "cuda" else [provider]
    try:
        session = ort.InferenceSession(path, options, providers=wanted if provider == CPU else [*wanted, CPU])
    except Exception as error:  # as above
        raise BundleError(f"{path} cannot be loaded: {first_line(error)}") from None
    if provider not in session.get_providers():
        needs = f"{provider} here"
        if device == "cuda":
            needs = "CUDA here; it needs a device, CUDA 13 and cuDNN 9"
        raise InputError(f"ONNX Runtime cannot start {needs}")
    return Session(session, device)


def cuda_present() -> bool:
    """Tell whether ONNX Runtime was built for CUDA and a driver with a device answers."""
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


def _known(device: str) -> str:
    """The device as `devices` names it. Raises InputError for one that is not there."""
    name = device.lower().removesuffix(SUFFIX.lower())
    if name not in devices():
        raise InputError(f"device '{device}' is not there; this ONNX Runtime has {', '.join(devices())}")
    return name


def open_sessions(
    files: Mapping[str, Path], device: str | None, threads: int | None, *, optimize: bool = True
) -> tuple[str, dict[str, Session]]:
    """The device, and a session a file by role, as `open_session` makes them.

    `device` is one of `devices()`, which may be spelt as ONNX Runtime spells it; None is "cuda" where a
    driver answers and ONNX Runtime can start it, and else "cpu"; a driver without libraries is a warning.
    """
    name = None if device is None else _known(device)

    def opened(device: str) -> tuple[str, dict[str, Session]]:
        return device, {
            role: open_session(path, device, threads, optimize=optimize) for role, path in files.items()
        }

    if name in ("cuda", "tensorrt") or (name is None and cuda_present()):
        # Loads the libraries that PyTorch's or NVIDIA's wheels bring; what it misses, it prints.
        with contextlib.redirect_stdout(io.StringIO()):
            ort.preload_dlls()
    if name is None and cuda_present():
        try:
            return opened("cuda")
        except InputError as error:
            warnings.warn(f"running on the CPU: {error}", stacklevel=4)
    return opened(name or "cpu")
