"""Tensor names without the prefixes of training wrappers."""

from collections.abc import Mapping
from typing import TypeVar

from txexport.errors import CheckpointError, shown

T = TypeVar("T")
# Prefixes of torch.compile, FSDP and activation checkpointing, before the wrapped module.
PARTS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
PARALLEL = "module."  # the prefix of DataParallel and DistributedDataParallel, before all names


def unwrapped(tensors: Mapping[str, T]) -> dict[str, T]:
    """The tensors without the wrappers' prefixes. Raises CheckpointError for two of one name."""
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
