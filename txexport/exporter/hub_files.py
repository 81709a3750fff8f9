"""What other clients read beside the graphs: settings that are made of the checkpoint's own."""

import json
from collections.abc import Mapping
from pathlib import Path

from txexport.contracts import roles
from txexport.exporter.bundle_plan import BundlePlan

CONFIG = "config.json"


def hub_files(own: Mapping[str, Path], plan: BundlePlan) -> dict[str, bytes]:
    """The made files by name; `own` are the checkpoint's."""
    if not plan.hub or CONFIG not in own:
        return {}
    return {CONFIG: _config(own[CONFIG], plan)}


def _config(path: Path, plan: BundlePlan) -> bytes:
    """The checkpoint's config.json, which tells transformers.js of the graphs.

    Unless told, it looks for eight-bit graphs in a browser, and for weights within the graph.
    """
    config = json.loads(path.read_text(encoding="utf-8"))
    files = {roles.file(graph.role): 1 for graph in plan.hub if roles.data_path(graph.role) in plan.data}
    settings = {"dtype": "fp32"} | ({} if plan.form.single_file else {"use_external_data_format": files})
    config["transformers.js_config"] = settings | config.get("transformers.js_config", {}) | settings
    return _text(config)


def _text(content: dict) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
