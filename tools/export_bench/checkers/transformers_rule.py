"""The rule of the library's own tests of its exporters, tests/exporters/test_export.py: test_onnx_export.

One input of a batch of 13 and 7 tokens; torch.testing.assert_close with atol = rtol = 1e-3, and a failure
is let through if its message counts fewer than 5 % mismatched elements (`_check_outputs_close`). The tests
are not in the package, so the rule is stated here.
"""

import json
import re
import warnings
from pathlib import Path

import onnxruntime
import torch
import transformers
from originals import Example, calls
from worker import serve

TOLERANCE, MISMATCHED = 1e-3, 0.05
EXAMPLES = (Example(13, 7, "random"), Example(13, 7, "ones", past=6))
PROMPT = Example(13, 7, "triangle")  # of decoders, as the library's causal testers draw masks


@torch.no_grad()
def judge(folder: Path) -> str | None:
    """Compare a prompt and a step of each graph of an export with the original."""
    record = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    first, step = EXAMPLES
    for example in (PROMPT if record["model"] == "decoder" else first, step):
        for call in calls(folder, example):
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(call.file, options, providers=["CPUExecutionProvider"])
            expected = dict(zip(call.outputs, call(*call.arguments), strict=True))
            arrays = session.run(call.outputs, call.feeds)
            actual = {name: torch.from_numpy(one) for name, one in zip(call.outputs, arrays, strict=True)}
            why = mismatch(actual, expected)
            if why:
                return why
    return None


def mismatch(actual: dict, expected: dict) -> str | None:
    """Why outputs are not close by the rule."""
    try:
        torch.testing.assert_close(actual, expected, atol=TOLERANCE, rtol=TOLERANCE)
    except AssertionError as error:
        counted = re.findall(r"Mismatched elements: (\d+) / (\d+)", str(error))
        if counted and int(counted[0][0]) / int(counted[0][1]) < MISMATCHED:
            return None
        return str(error)
    return None


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    serve(judge, {"transformers": transformers.__version__, "onnxruntime": onnxruntime.__version__})
