"""Selects a model's weights among the values of a file of torch.save."""

from collections.abc import Mapping
from typing import Any

from txexport.checkpoints.pytorch.pickles import Tensor
from txexport.errors import CheckpointError, shown

LIGHTNING = "pytorch-lightning_version"  # in a checkpoint of Lightning, whose module contains the model


def weights(value: Any) -> Mapping[str, Tensor]:
    """The state dict that `value` is, or the only one that it has under a name, beside an optimizer's.

    For a checkpoint of Lightning, names are relative to the attribute that holds the model. Raises
    CheckpointError if there is none, or several.
    """
    if not isinstance(value, dict):
        raise CheckpointError(f"it holds a {type(value).__name__}, expected a state dict, names to tensors")
    if any(isinstance(one, Tensor) for one in value.values()):
        for name, one in value.items():
            if not isinstance(name, str) or not isinstance(one, Tensor):
                raise CheckpointError(
                    f"it holds tensors and {shown(name)}, a {type(one).__name__}; save the state dict alone"
                )
        return value
    inner = {name: one for name, one in value.items() if _is_state_dict(one)}
    if len(inner) != 1:
        names = ", ".join(shown(name) for name in list(inner)[:5]) or "none"
        raise CheckpointError(f"it holds {len(inner)} state dicts ({names}), expected one; save it alone")
    (only,) = inner.values()
    return _of_attribute(only) if LIGHTNING in value else only


def _of_attribute(state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors by their names within a common attribute, if there is one."""
    attributes = {name.partition(".")[0] for name in state}
    if len(attributes) > 1 or not all("." in name for name in state):
        return state
    return {name.partition(".")[2]: tensor for name, tensor in state.items()}


def _is_state_dict(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(name, str) and isinstance(one, Tensor) for name, one in value.items())
    )
