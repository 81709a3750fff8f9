"""onnxruntime-web's WebAssembly in headless Chromium, on a page of a server on 127.0.0.1."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from txexport.bundle.manifest import Manifest
from txexport.runtime.session import Session
from txexport.verification.linked import weight_files
from txexport.verification.runtimes import npm
from txexport.verification.runtimes.frames import builder
from txexport.verification.runtimes.page import serve
from txexport.verification.runtimes.runtime import Files, Options, Runtime, load

PACKAGE = "onnxruntime-web"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCRIPTS = Path(__file__).with_name("js")
MEMORY = 2**32  # bytes that WebAssembly can address


def browser() -> str | None:
    """The browser's command: CHROME_BIN, or one of the usual names."""
    return next(filter(None, map(shutil.which, (os.environ.get("CHROME_BIN", ""), *BROWSERS))), None)


def _missing() -> str | None:
    if browser() is None:
        return "Chromium is not installed; install it, or set CHROME_BIN to its path"
    return npm.missing(PACKAGE)


def _refuses(folder: Path, manifest: Manifest) -> str | None:
    size, graphs = sum(data.bytes for data in manifest.data.values()), len(manifest.graphs)
    if npm.find(PACKAGE) is not None and (reason := manifest.refused_by(npm.version(PACKAGE))) is not None:
        return reason
    if size * graphs < MEMORY:
        return None
    return f"{graphs} graphs with weights of {size:,} bytes do not fit into WebAssembly's {MEMORY:,}"


def _versions() -> dict[str, str]:
    output = subprocess.run([browser() or "", "--version"], capture_output=True, text=True, check=True).stdout
    return {"browser": output.strip(), PACKAGE: npm.version(PACKAGE)}


@contextmanager
def chromium(url: str) -> Iterator[None]:
    """A headless browser at a page, with its own profile."""
    options = ["--headless=new", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    if os.name == "posix" and os.geteuid() == 0:
        options.append("--no-sandbox")  # which does not work for root
    with tempfile.TemporaryDirectory(prefix="txexport-", ignore_cleanup_errors=True) as profile:
        command = [browser() or "", *options, f"--user-data-dir={profile}", url]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def _open(files: Files, device: str | None, options: Options) -> Iterator[tuple[str, dict[str, Session]]]:
    package = npm.find(PACKAGE)
    assert package is not None
    shown = {"": SCRIPTS / "web.html", "frames.mjs": SCRIPTS / "frames.mjs"}
    shown |= {f"ort/{path.name}": path for path in (package / "dist").iterdir()}
    shown |= {f"bundle/{path.name}": path for path in files.values()}
    weights = {path: _weights(path) for path in files.values()}
    shown |= {f"bundle/{name}": path.with_name(name) for path, names in weights.items() for name in names}

    def about(path: Path) -> dict[str, Any]:
        of_path = {"graph": f"bundle/{path.name}", "folder": "bundle", "weights": weights[path]}
        return {**of_path, "options": dict(options)}

    with serve(shown) as page, chromium(page.url):
        build = builder(page.send, about)
        yield "cpu", {role: load(path, PACKAGE, build) for role, path in files.items()}


def _weights(path: Path) -> list[str]:
    """The weights files of a graph."""
    return sorted(weight_files(onnx.load(path, load_external_data=False)))


RUNTIME = Runtime("web", _open, versions=_versions, missing=_missing, refuses=_refuses)
