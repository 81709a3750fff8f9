"""KServe's InferenceService, by the schema in KServe's own library."""

from pathlib import Path
from typing import Any

import kserve
import numpy as np
import yaml
from kubernetes import client as kubernetes

PACKAGES = ["kserve"]


def service(bundle: Path, task: str, arrays: dict[str, np.ndarray], text: str) -> dict[str, Any]:
    """The `format`, `protocol` and `storage` of a YAML manifest's model, and its `unknown` keys."""
    manifest = yaml.safe_load(text)
    unknown = list(_unknown(manifest, "V1beta1InferenceService", ""))
    model = manifest["spec"]["predictor"]["model"]
    return {
        "kind": [manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]],
        "format": model["modelFormat"]["name"],
        "protocol": model["protocolVersion"],
        "storage": model.get("storageUri"),
        "unknown": unknown,
    }


def _unknown(value: Any, kind: str, path: str) -> Any:
    """Paths of keys that the schema lacks, which a client would ignore silently."""
    if kind.startswith("list["):
        for one in value:
            yield from _unknown(one, kind[5:-1], path)
        return
    model = getattr(kserve, kind, None) or getattr(kubernetes, kind, None)
    if model is None or not hasattr(model, "openapi_types"):
        return
    names = {key: name for name, key in model.attribute_map.items()}
    for key, one in value.items():
        if key not in names:
            yield f"{path}.{key}"
        else:
            yield from _unknown(one, model.openapi_types[names[key]], f"{path}.{key}")
