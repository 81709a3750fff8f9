"""Which originals a bundle is held against, made of its checkpoint."""

from collections.abc import Collection
from importlib.util import find_spec

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, TxexportError, UnsupportedError, first_line, needed_for


def reference_kinds(reference: str | None, model_type: str, third: bool) -> dict:
    """The classes of references by name; in place of one that is not needed and not there, why."""
    with needed_for("verify"):
        from txexport.verification.references.originals import REFERENCES, Double
        from txexport.verification.references.torch_onnx import Third
    known = {**REFERENCES, "float64": Double, "torch.onnx": Third}
    if reference is not None and reference not in known:
        raise InputError(f"reference '{reference}' is not known; expected one of {', '.join(known)}")
    kinds: dict = dict(REFERENCES) if reference is None else {reference: known[reference]}
    if third:
        kinds["torch.onnx"] = Third
    if "transformers" in kinds and model_type in families.WITHOUT_ORIGINAL:
        _, kinds["transformers"] = families.WITHOUT_ORIGINAL[model_type]
    elif reference is None and find_spec("transformers") is None:
        kinds["transformers"] = "transformers is not installed"
    return kinds


def originals_of(
    kinds: dict, checkpoint: Checkpoint, resolved: families.Resolved, outputs: Collection[str]
) -> dict:
    """The references by name, made of the checkpoint, which give `outputs` of every layer too."""
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
            originals[name] = str(error)  # beside others, what it cannot do is no failure
        except Exception as error:  # a library's refusal of the checkpoint, in whatever form
            raise UnsupportedError(
                f"reference '{name}' could not be made of {checkpoint.folder}: {first_line(error)}"
            ) from error
    return originals
