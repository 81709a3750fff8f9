"""The arguments of `verify`."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from txexport.verification.attempt import CaseProgress
from txexport.verification.checks import RUNTIME


@dataclass(frozen=True)
class VerifyArguments:
    """The arguments of `verify`, whose docstring describes them."""

    out: str | Path
    _: KW_ONLY
    source: str | Path | None = None
    adapter: str | Path | None = None
    reference: str | None = None
    device: str | None = "cpu"
    runtime: str | Sequence[str] = RUNTIME
    cases: str | Sequence[str] = "full"
    layers: bool = False
    texts: str | Path | None = None
    torch_onnx: bool = False
    allow_edited: bool = False
    client: str | None = None
    budget: Mapping[str, float] | None = None
    progress: CaseProgress | bool | None = None
