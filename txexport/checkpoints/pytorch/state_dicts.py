"""Which of the values that torch.save wrote are a model's weights."""

from collections.abc import Mapping
from typing import Any

from txexport.checkpoints.pytorch.pickles import Tensor
from txexport.errors import CheckpointError, shown


def weights(value: Any) -> Mapping[str, Tensor]:
    """The state dict that `value` is, or the only one that it has under a name, beside an optimizer's.

    Raises CheckpointError where there is none, or several.
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
    return only


def _is_state_dict(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(name, str) and isinstance(one, Tensor) for name, one in value.items())
    )
