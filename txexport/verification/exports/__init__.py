"""Other tools' exports of a checkpoint, beside its class of transformers.

Judging needs PyTorch and transformers, which are imported when they are used.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from txexport import bundle
from txexport.contracts import roles
from txexport.errors import needed_for

if TYPE_CHECKING:
    from txexport.support.progress import Naming
    from txexport.verification.result import Report
    from txexport.verification.verify_arguments import VerifyArguments


def is_export(place: Path) -> bool:
    """Tell whether `place` is an ONNX file, or a folder with such files that is not a bundle."""
    if place.is_file():
        return place.suffix == roles.SUFFIX
    graphs = [f"*{roles.SUFFIX}", f"*/*{roles.SUFFIX}"]
    return not bundle.is_bundle(place) and any(any(place.glob(pattern)) for pattern in graphs)


def verify_export(arguments: "VerifyArguments", tell: "Naming") -> "Report":
    """The report of `verify` for another tool's export."""
    with needed_for("verify", "verify"):
        from txexport.verification.exports import verifying
    return verifying.verify_export(arguments, tell)
