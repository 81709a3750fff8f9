"""The clients that run each family, as measured by tools/clients/families.py."""

import json
from functools import cache
from pathlib import Path

from txexport.bundle.manifest import Manifest
from txexport.contracts import roles
from txexport.contracts.names import ATTENTION_MASK, INPUT_VALUES

DATA = Path(__file__).with_name("clients.json")
NAMES = {
    "genai": "onnxruntime-genai",
    "openvino": "OpenVINO",
    "optimum": "optimum",
    "js": "transformers.js",
}


@cache
def _families() -> dict[str, dict[str, list[str]]]:
    return json.loads(DATA.read_text(encoding="utf-8"))["families"]


def running(manifest: Manifest) -> list[str] | None:
    """The names of the clients that run a bundle; None if the model was not tested.

    A bundle in the layout of one client has only that one.
    """
    if not manifest.hub:
        return []
    if manifest.form.client == roles.TRITON:
        return ["Triton"]
    known = _families().get(manifest.model_type, {}).get(manifest.task)
    if known is None:
        return None
    inputs = {port.name for graph in manifest.hub.values() for port in graph.inputs}
    if {INPUT_VALUES, ATTENTION_MASK} <= inputs and manifest.task == "automatic-speech-recognition":
        known = [name for name in known if name != "optimum"]  # its class for CTC gives no attention_mask
    if roles.EMBED_TOKENS in manifest.hub and roles.EMBEDDING not in manifest.hub:  # as in other layouts
        known = [name for name in known if name != "genai"]
    only_openvino = manifest.form.client == roles.OPENVINO
    return [
        shown for name, shown in NAMES.items() if name in known and (not only_openvino or name == "openvino")
    ]


def tested_clients(manifest: Manifest) -> str:
    """The clients that were tested with a bundle, as the command line prints them."""
    names = running(manifest)
    if names is None:
        return ""
    return f" ({', '.join(names) or 'ONNX Runtime only: no tested client runs this model'})"
