"""The clients that run each family, measured by tools/clients/families.py."""

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
    """The names of the clients that run a bundle's graphs for others; None if that was not tested.

    A layout for one client is for that client only.
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
    """The clients that were tested with a bundle, for the command line."""
    names = running(manifest)
    if names is None:
        return ""
    return f" ({', '.join(names) or 'ONNX Runtime only: no tested client runs this model'})"
