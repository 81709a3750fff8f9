"""ONNX Runtime sessions, and values that stay where the session computes."""

import ctypes
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort

from txexport.errors import BundleError, InputError

ERRORS_ONLY = 3  # ONNX Runtime's severity: a copied cache or a slow operator is no news to a user

TYPES = {"tensor(int64)": np.int64, "tensor(float)": np.float32}


class Session:
    """One graph on one device, "cpu" or "cuda".

    Raises InputError for a device that is not there, BundleError for a graph that cannot be loaded.
    """

    def __init__(self, path: Path, device: str, threads: int | None):
        options = ort.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        if threads is not None:
            options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        if device == "cuda":
            providers.insert(0, "CUDAExecutionProvider")
        try:
            self.session = ort.InferenceSession(path, options, providers=providers)
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise BundleError(f"{path} cannot be loaded: {str(error).splitlines()[0]}") from None
        if device == "cuda" and "CUDAExecutionProvider" not in self.session.get_providers():
            raise InputError("device 'cuda' was asked for, but ONNX Runtime could not start it here")
        self.device = device
        self.inputs = {port.name: port for port in self.session.get_inputs()}
        self.outputs = {port.name: port for port in self.session.get_outputs()}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output by name, for inputs of which integers may have any width.

        Raises InputError for an input that is unknown, missing, or of another type or shape.
        """
        unknown, missing = inputs.keys() - self.inputs.keys(), self.inputs.keys() - inputs.keys()
        if unknown or missing:
            said = [f"unknown {', '.join(sorted(unknown))}"] * bool(unknown)
            said += [f"missing {', '.join(sorted(missing))}"] * bool(missing)
            raise InputError(f"inputs do not fit the graph: {'; '.join(said)}")
        fitting = {name: self._fit(name, array) for name, array in inputs.items()}
        try:
            return dict(zip(self.outputs, self.session.run(None, fitting), strict=True))
        except Exception as error:  # as above
            raise InputError(str(error).splitlines()[0]) from None

    def _fit(self, name: str, array: np.ndarray) -> np.ndarray:
        """`array` in the type of the input `name`, if its type and shape allow."""
        port = self.inputs[name]
        if port.type == "tensor(int64)" and np.issubdtype(array.dtype, np.integer):
            array = array.astype(np.int64, copy=False)
        same = len(port.shape) == array.ndim and all(
            found == wanted or isinstance(wanted, str)
            for found, wanted in zip(array.shape, port.shape, strict=True)
        )
        if not same or TYPES[port.type] != array.dtype:
            dims = ", ".join(str(dim) for dim in port.shape)
            wanted = np.dtype(TYPES[port.type]).name
            raise InputError(f"input '{name}' is {array.dtype} {array.shape}, expected {wanted} ({dims})")
        return array

    def value(self, array: np.ndarray) -> ort.OrtValue:
        """`array` on the session's device; on the CPU it shares the array's memory."""
        return ort.OrtValue.ortvalue_from_numpy(array, self.device, 0)

    def run_values(
        self, inputs: Mapping[str, ort.OrtValue], wanted: Sequence[str]
    ) -> dict[str, ort.OrtValue]:
        """The outputs `wanted`, left on the session's device."""
        binding = self.session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name in wanted:
            binding.bind_output(name, self.device)
        self.session.run_with_iobinding(binding)
        return dict(zip(wanted, binding.get_outputs(), strict=True))


def cuda_present() -> bool:
    """Whether ONNX Runtime was built for CUDA and a driver with a device answers."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return False
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int(0)
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


def choose_device(device: str | None) -> str:
    """`device`, or "cuda" where present and else "cpu"; loads CUDA's libraries where they are used."""
    if device not in (None, "cpu", "cuda"):
        raise InputError(f"device '{device}' is not known; expected cpu or cuda")
    chosen = device or ("cuda" if cuda_present() else "cpu")
    if chosen == "cuda":
        ort.preload_dlls()
    return chosen
