"""A CUDA that runs nothing, on which ONNX Runtime's own provider places, copies, refuses and captures.

`prepare` unpacks the pinned onnxruntime-gpu and compiles the libraries of `empty/`; `environment` has the
variables of a process over them. Such a process computes zeros: its counts and refusals are facts, and its
numbers are none.
"""

import ctypes
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).with_name("empty")
RUNTIME = "libcudart.so.13"
# Library -> its source in `empty/`; the driver's and cuRAND's have no function that is logged.
LIBRARIES = {
    RUNTIME: "runtime.c",
    "libcuda.so.1": "driver.c",
    "libcublas.so.13": "blas.c",
    "libcublasLt.so.13": "blas_lt.c",
    "libcudnn.so.9": "dnn.c",
    "libcurand.so.10": None,
}
HEADERS = "nvidia-cuda-runtime", "nvidia-cuda-crt"
LOG = "EMPTY_CUDA_LOG"


def prepare(folder: Path, constraints: Path) -> None:
    """Download and compile what `folder` lacks. Raises CalledProcessError where pip or gcc fails."""
    pins = dict(line.split("==") for line in constraints.read_text().splitlines() if "==" in line)
    site, headers, libraries = folder / "site", folder / "headers", folder / "lib"
    if not site.exists():
        _unpack([f"onnxruntime-gpu=={pins['onnxruntime-gpu']}"], folder / "wheels", site)
    if not headers.exists():
        _unpack(list(HEADERS), folder / "wheels", headers)
    libraries.mkdir(exist_ok=True)
    [include] = headers.glob("nvidia/*/include")
    for name, source in LIBRARIES.items():
        versions = folder / "versions.map"
        versions.write_text(f"{name} {{ global: *; }};\n")
        command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-x", "c", f"-I{include}"]
        command += [f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}", "-o", libraries / name]
        command += [SOURCES / source if source else os.devnull]
        linked = [] if name == RUNTIME else ["-L", libraries, f"-l:{RUNTIME}"]
        subprocess.run([*command, *linked], check=True)


def _unpack(packages: list[str], wheels: Path, out: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*pip, "--dest", wheels / out.name, *packages], check=True)
    for wheel in (wheels / out.name).glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(out)


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process whose onnxruntime runs over the empty CUDA in `folder`."""
    paths = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "LD_LIBRARY_PATH": str(folder / "lib"),
        LOG: str(folder / "log"),
    }


class Log:
    """The events since the last call of `read`, in a process over the empty CUDA."""

    def __init__(self) -> None:
        self.path = Path(os.environ[LOG])
        self.library = ctypes.CDLL(RUNTIME)
        self.end = 0
        self.read()

    def read(self) -> Counter[str]:
        """The number of each kind of event, and each line of what no capture may do, with a "!" first."""
        self.library.empty_mark(b"read")
        with self.path.open("rb") as file:
            file.seek(self.end)
            lines = file.read().decode().splitlines()
            self.end = file.tell()
        return Counter(map(kind, lines))


def kind(line: str) -> str:
    """kernel, product, up, down, captured, replayed, other, or the line itself where it starts with "!"."""
    if line.startswith("!"):
        return line
    first, _, rest = line.partition(" ")
    if first == "copy":
        return {"H2D": "up", "D2H": "down"}.get(rest[:3], "other")
    names = {"kernel": "kernel", "call": "product", "capture": "captured", "graph": "replayed"}
    return names.get(first, "other") if line != "capture end" else "other"
