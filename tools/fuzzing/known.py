"""Faults of libraries that cannot be mended here: crashes on files that only they could reject."""

from dataclasses import dataclass

from fuzzing.worker import Mutant, Result


@dataclass(frozen=True)
class Known:
    """A fault of a target by the beginning of its message and its location, and the reason why it stays."""

    target: str
    fault: str
    where: str
    reason: str


KNOWN = (
    Known(
        "onnx-bundle",
        "died of SIGSEGV",
        "txexport/runtime/engines/onnxruntime.py",
        "ONNX Runtime 1.31 itself crashes while it loads some graphs that onnx's checker refuses: functions "
        "that import another opset than the model, or name an input twice. `load` refuses a graph that is "
        "not the manifest's, and has no checker, since onnx is not among what running needs. Who edits graph "
        "and manifest has made another bundle, which is as trusted as its maker.",
    ),
)


def known(mutant: Mutant, result: Result) -> Known | None:
    """The known fault that a fault matches, if any."""
    for one in KNOWN:
        same = one.target == mutant.target and (result.fault or "").startswith(one.fault)
        if same and result.where.startswith(one.where):
            return one
    return None
