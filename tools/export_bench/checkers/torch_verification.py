"""torch.onnx: verify_onnx_program on one example, with the limits of torch.onnx.export(..., verify=True)."""

import logging
import warnings
from pathlib import Path

import onnx_ir
import onnx_ir.external_data
import onnxruntime
import torch
from originals import Example, calls
from torch.onnx import ONNXProgram
from torch.onnx.verification import verify_onnx_program
from worker import UnjudgedError, serve

ABSOLUTE, RELATIVE = (
    5e-3,
    1e-1,
)  # in torch/onnx/_internal/exporter/_core.py, after "Validate the output values"
EXAMPLE = Example(batch=2, length=8, past=4)
PROGRAMS: dict[tuple, torch.export.ExportedProgram] = {}


def judge(folder: Path) -> str | None:
    """Compare every graph of an export with an exported program of its original."""
    for call in calls(folder, EXAMPLE):
        if "use_cache_branch" in call.names:
            continue  # a program for each branch is not the merged graph's
        key = (id(call.model), call.file.name, *call.outputs)
        if key not in PROGRAMS:
            try:
                PROGRAMS[key] = torch.export.export(call, call.arguments, strict=False)
            except Exception as error:
                raise UnjudgedError(f"torch.export: {str(error)[:200]}") from error
        graph = onnx_ir.external_data.load_to_model(onnx_ir.load(call.file))
        program = ONNXProgram(graph, PROGRAMS[key])
        for one in verify_onnx_program(program, call.arguments):
            if one.max_abs_diff >= ABSOLUTE or one.max_rel_diff >= RELATIVE:
                return f"{one.name} differs by {one.max_abs_diff:.1e}, relatively {one.max_rel_diff:.1e}"
    return None


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    serve(judge, {"torch": torch.__version__.partition("+")[0], "onnxruntime": onnxruntime.__version__})
