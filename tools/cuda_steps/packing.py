"""Wheels for a machine without network, in pieces of the size of one transfer."""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

PIECE = 56 * 2**20  # bytes: 64 MiB a call, less the checkout
WHEELS = ["onnxruntime-gpu", "onnx-ir", "onnxscript", "tokenizers"]  # other machines have older versions
PLATFORMS = [
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
]


def pack(folder: Path, python: str, constraints: Path) -> None:
    """Write the wheels for `python` ("3.12") of the tests' versions as folder/pieces/NUMBER."""
    wheels, pieces = folder / "wheels", folder / "pieces"
    pins = dict(line.split("==") for line in constraints.read_text().splitlines() if "==" in line)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", python, "--implementation", "cp", "--dest", str(wheels)]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run([*command, *(f"{name}=={pins[name]}" for name in WHEELS)], check=True)
    split(sorted(wheels.glob("*.whl")), pieces, PIECE)
    for path in sorted(pieces.glob("*.part")):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def split(files: list[Path], pieces: Path, size: int) -> None:
    """Concatenate all files and cut them into pieces; pieces/index.json has the offset of each file."""
    pieces.mkdir(parents=True, exist_ok=True)
    for old in pieces.glob("*.part"):
        old.unlink()
    data = b"".join(path.read_bytes() for path in files)
    cut = [data[start : start + size] for start in range(0, len(data), size)]
    for number, piece in enumerate(cut):
        (pieces / f"{number}.part").write_bytes(piece)
    index = {
        "files": [[path.name, path.stat().st_size] for path in files],
        "pieces": [hashlib.sha256(piece).hexdigest() for piece in cut],
    }
    (pieces / "index.json").write_text(json.dumps(index))


def join(pieces: Path, store: Path, out: Path) -> list[int]:
    """Store the pieces that are here, and assemble the files once all are; return the missing numbers.

    Raises ValueError for a damaged piece.
    """
    index = json.loads((pieces / "index.json").read_text())
    store.mkdir(parents=True, exist_ok=True)
    for path in pieces.glob("*.part"):
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != index["pieces"][int(path.stem)]:
            raise ValueError(f"{path} is damaged; carry it again")
        (store / path.name).write_bytes(data)
    numbers = range(len(index["pieces"]))
    missing = [number for number in numbers if not (store / f"{number}.part").exists()]
    if not missing:
        data, start = b"".join((store / f"{number}.part").read_bytes() for number in numbers), 0
        out.mkdir(parents=True, exist_ok=True)
        for name, size in index["files"]:
            (out / name).write_bytes(data[start : start + size])
            start += size
    return missing


def install(wheels: Path, site: Path, project: Path) -> None:
    """Install the wheels into `site`, and this checkout's metadata, since there is no build backend."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade"]
    subprocess.run([*command, "--target", str(site), *map(str, sorted(wheels.glob("*.whl")))], check=True)
    version = tomllib.loads(project.read_text())["project"]["version"]
    metadata = site / f"txexport-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: txexport\nVersion: {version}\n")
