"""Which clients run which families, as tools/clients/families.py found by trying them all."""

import json
from functools import cache
from pathlib import Path

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles

DATA = Path(__file__).with_name("clients.json")
NAMES = {
    "genai": "onnxruntime-genai",
    "openvino": "OpenVINO",
    "optimum": "optimum",
    "js": "transformers.js",
}


@cache
def _found() -> dict[str, dict[str, list[str]]]:
    return json.loads(DATA.read_text(encoding="utf-8"))["families"]


def running(manifest: Manifest) -> list[str] | None:
    """The clients that run a bundle's graphs for others, by their names; None where that was not tried.

    Of a layout for one client they are that one alone.
    """
    if not manifest.hub:
        return []
    if manifest.form.client == roles.TRITON:
        return ["Triton"]
    known = _found().get(manifest.model_type, {}).get(manifest.task)
    if known is None:
        return None
    alone = manifest.form.client == roles.OPENVINO
    return [shown for name, shown in NAMES.items() if name in known and (not alone or name == "openvino")]


def told(manifest: Manifest) -> str:
    """The clients that were tested with a bundle, as the command line prints them."""
    names = running(manifest)
    if names is None:
        return ""
    return f" ({', '.join(names) or 'ONNX Runtime alone: no client that was tried runs this model'})"
