"""Graphs that transformers' own exporter traces, for classes without a family, under the same proof.

They need PyTorch and transformers, which are imported when they are used.
"""

from typing import TYPE_CHECKING

from txexport.errors import needed_for

if TYPE_CHECKING:
    from txexport.support.progress import Naming
    from txexport.verification.result import Report
    from txexport.verification.verify_arguments import VerifyArguments


def verify_traced(arguments: "VerifyArguments", tell: "Naming") -> "Report":
    """The report of `verify` for a traced bundle."""
    with needed_for("verify", "verify"):
        from txexport.verification.traced import verifying
    return verifying.verify_traced(arguments, tell)


def __getattr__(name: str):
    if name != "export_traced":
        raise AttributeError(f"module 'txexport.verification.traced' has no attribute '{name}'")
    with needed_for("export --traced", "verify"):
        from txexport.verification.traced.export import export_traced
    return export_traced
