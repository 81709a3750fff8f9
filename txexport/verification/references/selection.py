"""The references of a verification: chosen by name, and created from the checkpoint."""

from collections.abc import Collection
from importlib.util import find_spec

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, TxexportError, UnsupportedError, first_line, needed_for


def reference_kinds(reference: str | None, model_type: str, torch_onnx: bool) -> dict:
    """The classes of references by name, or the reason why an optional one is missing."""
    with needed_for("verify"):
        from txexport.verification.references.originals import Float64Twin, Twin
        from txexport.verification.references.torch_onnx import TorchOnnxReference
        from txexport.verification.references.transformers_reference import Transformers
    usual = {"twin": Twin, "transformers": Transformers}
    known = {**usual, "float64": Float64Twin, "torch.onnx": TorchOnnxReference}
    if reference is not None and reference not in known:
        raise InputError(f"reference '{reference}' is not known; expected one of {', '.join(known)}")
    kinds: dict = dict(usual) if reference is None else {reference: known[reference]}
    if torch_onnx:
        kinds["torch.onnx"] = TorchOnnxReference
    if "transformers" in kinds and model_type in families.WITHOUT_ORIGINAL:
        _, kinds["transformers"] = families.WITHOUT_ORIGINAL[model_type]
    elif reference is None and find_spec("transformers") is None:
        kinds["transformers"] = "transformers is not installed"
    return kinds


def originals_of(
    kinds: dict, checkpoint: Checkpoint, resolved: families.Resolved, outputs: Collection[str]
) -> dict:
    """The references by name, with `outputs` of every layer too, or the reason why one cannot be created."""
    originals: dict = {}
    for name, kind in kinds.items():
        if isinstance(kind, str):
            originals[name] = kind
            continue
        try:
            originals[name] = kind(checkpoint, resolved, outputs)
        except TxexportError as error:
            if name != "torch.onnx" or len(kinds) == 1:
                raise
            originals[name] = str(error)  # no failure if it is one of several
        except Exception as error:  # of a library that refuses the checkpoint
            raise UnsupportedError(
                f"reference '{name}' could not be created from {checkpoint.folder}: {first_line(error)}"
            ) from error
    return originals
