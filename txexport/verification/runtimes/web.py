"""onnxruntime-web in headless Chromium, on a page of a server on 127.0.0.1: WebAssembly, or WebGPU.

WebGPU computes in software (SwiftShader, which Chromium brings), so that no GPU is needed.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.errors import first_line
from txexport.runtime.session import Session
from txexport.verification.linked import weight_files
from txexport.verification.runtimes import npm
from txexport.verification.runtimes.frames import builder, decode, encode
from txexport.verification.runtimes.page import Page, serve
from txexport.verification.runtimes.runtime import Files, Options, Runtime, load

PACKAGE = "onnxruntime-web"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCRIPTS = Path(__file__).with_name("js")
MEMORY = 2**32  # bytes that WebAssembly can address
# Module of onnxruntime-web by execution provider; that of WebGPU is the one that transformers.js imports.
MODULES = {"wasm": "ort.wasm.min.mjs", "webgpu": "ort.webgpu.min.mjs"}
NO_GPU = ("--disable-gpu",)
SOFTWARE_GPU = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan,WebGPU",
    "--use-vulkan=swiftshader",
    "--disable-vulkan-surface",
)


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


def _refuses_gpu(folder: Path, manifest: Manifest) -> str | None:
    if manifest.form.client != roles.WEB:
        return "WebGPU's cosines and sines are inaccurate; only graphs of export --for web do not use them"
    if (reason := _refuses(folder, manifest)) is not None or manifest.dtype != "float16":
        return reason
    try:
        return None if "shader-f16" in _features() else "this WebGPU adapter has no shader-f16"
    except RuntimeError as error:  # there is no adapter
        return first_line(error)


@cache
def _features() -> frozenset[str]:
    """The features of the browser's WebGPU adapter."""
    with _page("webgpu") as page:
        return frozenset(decode(page.send(encode({"call": "features"}, {})))[0]["features"])


def _versions() -> dict[str, str]:
    output = subprocess.run([browser() or "", "--version"], capture_output=True, text=True, check=True).stdout
    return {"browser": output.strip(), PACKAGE: npm.version(PACKAGE)}


@contextmanager
def chromium(url: str, gpu: Sequence[str] = NO_GPU) -> Iterator[None]:
    """A headless browser at a page, with its own profile; `gpu` are its options for the GPU."""
    options = ["--headless=new", "--no-first-run", *gpu, "--disable-dev-shm-usage"]
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
def _page(provider: str) -> Iterator[Page]:
    """A page of an execution provider."""
    package = npm.find(PACKAGE)
    assert package is not None
    shown = {"": SCRIPTS / "web.html", "frames.mjs": SCRIPTS / "frames.mjs"}
    shown |= {f"ort/{path.name}": path for path in (package / "dist").iterdir()}
    gpu = SOFTWARE_GPU if provider == "webgpu" else NO_GPU
    with serve(shown) as page, chromium(f"{page.url}?module={MODULES[provider]}&provider={provider}", gpu):
        yield page


@contextmanager
def pages_kept_open() -> Iterator[None]:
    """Within it, a page stays open from one bundle to the next, so that WebGPU compiles each shader once."""
    global _pages
    _pages = {}
    with ExitStack() as closing:
        try:
            yield
        finally:
            for _, one in _pages.values():
                closing.push(one)
            _pages = None


_pages: dict[str, tuple[Page, ExitStack]] | None = None  # by provider, while pages stay open


@contextmanager
def _page_for_bundle(provider: str) -> Iterator[Page]:
    """A page of its own; while pages stay open, the provider's page, or another if that has failed."""
    if _pages is None:
        with _page(provider) as page:
            yield page
        return
    if provider in _pages and _pages[provider][0].failure is not None:
        _pages.pop(provider)[1].close()
    if provider not in _pages:
        closing = ExitStack()
        _pages[provider] = closing.enter_context(_page(provider)), closing
    page, _ = _pages[provider]
    try:
        yield page
    finally:
        _release(page, keep=provider == WEBGPU.name)


def _release(page: Page, keep: bool) -> None:
    """Release the sessions of a page, with `keep` all but its first; a page that fails is not used again."""
    try:
        answer, _ = decode(page.send(encode({"call": "release", "keep": int(keep)}, {})))
        if "error" in answer:
            page.failure = RuntimeError(answer["error"])
    except RuntimeError as error:
        page.failure = error


@contextmanager
def _open(
    provider: str, files: Files, device: str | None, options: Options
) -> Iterator[tuple[str, dict[str, Session]]]:
    weights = {path: _weights(path) for path in files.values()}
    shown = {path.name: path for path in files.values()}
    shown |= {name: path.with_name(name) for path, names in weights.items() for name in names}

    def about(path: Path) -> dict[str, Any]:
        of_path = {"graph": f"bundle/{path.name}", "folder": "bundle", "weights": weights[path]}
        return {**of_path, "options": dict(options)}

    with _page_for_bundle(provider) as page:
        page.show({f"bundle/{name}": path for name, path in shown.items()})

        def refused(error: RuntimeError) -> None:
            if provider == WEBGPU.name:  # on which onnxruntime-web never answers again
                page.failure = error

        build = builder(page.send, about, refused)
        device = "cpu" if provider == "wasm" else provider
        yield device, {role: load(path, PACKAGE, build) for role, path in files.items()}


def _weights(path: Path) -> list[str]:
    """The weights files of a graph."""
    return sorted(weight_files(onnx.load(path, load_external_data=False)))


RUNTIME = Runtime("web", partial(_open, "wasm"), versions=_versions, missing=_missing, refuses=_refuses)
WEBGPU = replace(RUNTIME, name="webgpu", open=partial(_open, "webgpu"), refuses=_refuses_gpu)
