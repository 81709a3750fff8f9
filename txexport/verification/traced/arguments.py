"""The arguments of `export_traced`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from txexport.verification.attempt import CaseProgress

OPSETS = range(18, 24)
DEFAULT_OPSET = 18


@dataclass(frozen=True)
class TracedArguments:
    """The arguments of `export_traced`, which describes them."""

    source: str | Path
    out: str | Path
    _: KW_ONLY
    architecture: str | None = None
    opset: int = DEFAULT_OPSET
    absolute_source: bool = False
    force: bool = False
    progress: CaseProgress | bool | None = None
