"""OpenVINO on the CPU, in float32."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import onnx

from txexport import bundle
from txexport.bundle.manifest import Manifest
from txexport.errors import install
from txexport.runtime.session import Session
from txexport.verification.runtimes.runtime import Files, Options, Runtime, load


def _missing() -> str | None:
    return None if find_spec("openvino") else f"openvino is not installed; {install('openvino')}"


def _refuses(folder: Path, manifest: Manifest) -> str | None:
    """The reason for graphs that OpenVINO 2026.4 cannot load: functions, opset 24's static cache, links."""
    if bundle.has_linked_weights(folder, manifest):
        from txexport.runtime.engines.openvino import LINKED

        return LINKED
    protos = [onnx.load(folder / graph.file, load_external_data=False) for graph in manifest.graphs.values()]
    if any(proto.functions for proto in protos):
        opset = " --opset 23" if manifest.cache == "static" and manifest.form.opset > 23 else ""
        return f"OpenVINO knows no functions of a model; export with --inline{opset}"
    if any(node.op_type == "TensorScatter" for proto in protos for node in proto.graph.node):
        return "OpenVINO does not know the static cache of opset 24; export with --inline --opset 23"
    return None


@contextmanager
def _open(files: Files, device: str | None, options: Options) -> Iterator[tuple[str, dict[str, Session]]]:
    from txexport.runtime.engines import openvino as engine

    build = partial(engine.from_file, session_options=options)
    yield "cpu", {role: load(path, engine.NAME, build) for role, path in files.items()}


def _versions() -> dict[str, str]:
    return {"openvino": version("openvino")}


RUNTIME = Runtime("openvino", _open, versions=_versions, missing=_missing, refuses=_refuses)
