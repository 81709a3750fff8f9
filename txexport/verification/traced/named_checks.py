"""Cases beside a class of transformers: their selection, and the arguments of `verify` that they take."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from txexport.errors import InputError
from txexport.verification.checks import RUNTIME, TensorCheck
from txexport.verification.verify_arguments import VerifyArguments

REFERENCE = "transformers"
NOT_TAKEN = ("adapter", "layers", "texts", "torch_onnx", "allow_edited", "client", "budget")


class NamedCheck(NamedTuple):
    """A case to call, and whether it is one of the quick ones."""

    run: Callable[[], list[TensorCheck]]
    quick: bool = True


def chosen(checks: Mapping[str, NamedCheck], arguments: VerifyArguments) -> Iterator[tuple[str, NamedCheck]]:
    """The selected cases by name. Raises InputError, at the end, if there is none."""
    selection = arguments.cases
    is_empty = True
    for name, check in checks.items():
        if selection == "full" or (selection == "quick" and check.quick) or name in selection:
            is_empty = False
            yield name, check
    if is_empty:
        raise InputError(f"no case is named {', '.join(selection)}")


def check_arguments(arguments: VerifyArguments, judged: str) -> None:
    """Raise InputError for arguments without use where `judged`, in words, is compared with its class."""
    refused = [name for name in NOT_TAKEN if getattr(arguments, name)]
    if arguments.reference not in (None, REFERENCE):
        refused.append("reference")
    if arguments.runtime not in (RUNTIME, [RUNTIME], (RUNTIME,)):
        refused.append("runtime")
    if refused:
        raise InputError(
            f"{', '.join(refused)} cannot be given for {judged}, which is compared with transformers "
            "in ONNX Runtime"
        )
