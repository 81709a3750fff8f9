"""Olive: the pass OnnxDiscrepancyCheck with its defaults, which set no limit; for ForCausalLM alone."""

import json
import os
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

from worker import UnjudgedError, serve


def judge(folder: Path) -> str | None:
    """Run the pass on a decoder's graph."""
    from olive.hardware import AcceleratorSpec
    from olive.model import ONNXModelHandler
    from olive.passes.olive_pass import create_pass_from_dict
    from olive.passes.onnx.discrepancy_check import OnnxDiscrepancyCheck

    config = json.loads((folder / "checkpoint" / "config.json").read_text(encoding="utf-8"))
    if not any("ForCausalLM" in name for name in config["architectures"]):
        raise UnjudgedError("it reads ForCausalLM models only")
    accelerator = AcceleratorSpec(accelerator_type="CPU", execution_provider="CPUExecutionProvider")
    check = create_pass_from_dict(
        OnnxDiscrepancyCheck,
        {"reference_model_path": str(folder / "checkpoint")},
        disable_search=True,
        accelerator_spec=accelerator,
    )
    with tempfile.TemporaryDirectory() as temporary:
        check.run(ONNXModelHandler(model_path=str(folder / "export" / "model.onnx")), temporary)
    return None


if __name__ == "__main__":
    os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"
    warnings.filterwarnings("ignore")
    serve(
        judge, {name: version(name).partition("+")[0] for name in ("olive-ai", "transformers", "onnxruntime")}
    )
