"""The LongRoPE factors (Ding et al. 2024, 3.2) of a checkpoint, the same for all lengths.

transformers selects them anew in each call: the long ones if a row is longer than
original_max_position_embeddings; a cache then still holds keys rotated with the short ones.
"""

from copy import copy

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, UnsupportedError, shown

FACTORS = ("short", "long")


def with_rope_factors(checkpoint: Checkpoint, factors: str) -> Checkpoint:
    """The checkpoint with the "short" or "long" factors for sequences of every length.

    With the long ones it equals the original for every sequence beyond the original length. Raises InputError
    for other factors, UnsupportedError if config.json has none.
    """
    if factors not in FACTORS:
        raise InputError(f"rope_factors is {shown(factors)}, expected {' or '.join(FACTORS)}")
    name = "rope_scaling" if checkpoint.config.get("rope_scaling") else "rope_parameters"
    scaling = checkpoint.config.get(name)
    values = scaling if isinstance(scaling, dict) else {}
    if not all(isinstance(values.get(f"{one}_factor"), list) for one in FACTORS):
        raise UnsupportedError(
            f"{checkpoint.config_file} has no short_factor and long_factor; leave rope_factors out "
            "(--rope-factors)"
        )
    if factors == "short":
        return checkpoint
    result = copy(checkpoint)
    result.config = checkpoint.config | {name: values | {"short_factor": values["long_factor"]}}
    result.as_published = False
    return result
