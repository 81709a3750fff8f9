"""Tensors by the names that they have in a model, where it was saved from within what wrapped it to train."""

from collections.abc import Mapping
from typing import TypeVar

from txexport.errors import CheckpointError, shown

T = TypeVar("T")
# What torch.compile, FSDP and recomputed activations put before whichever module they wrap.
PARTS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
PARALLEL = "module."  # what DataParallel and DistributedDataParallel put before all


def unwrapped(tensors: Mapping[str, T]) -> dict[str, T]:
    """The tensors without the wrappers' parts of their names. Raises CheckpointError for two of one name."""
    result: dict[str, T] = {}
    for name, tensor in tensors.items():
        plain = ".".join(part for part in name.split(".") if part not in PARTS)
        if plain in result:
            raise CheckpointError(
                f"tensor {shown(plain)} appears twice, with and without a training wrapper's prefix"
            )
        result[plain] = tensor
    while result and all(name.startswith(PARALLEL) for name in result):
        result = {name.removeprefix(PARALLEL): tensor for name, tensor in result.items()}
    return result
