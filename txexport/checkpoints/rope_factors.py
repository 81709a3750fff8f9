"""The factors of LongRoPE (Ding et al. 2024, 3.2) that a checkpoint turns by, chosen for all lengths.

transformers chooses anew in every call: the long ones where a row is longer than
original_max_position_embeddings, and a cache then holds keys that were turned by the short ones.
"""

from copy import copy

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, UnsupportedError, shown

FACTORS = ("short", "long")


def with_rope_factors(checkpoint: Checkpoint, factors: str) -> Checkpoint:
    """The checkpoint that turns sequences of every length by its "short" or "long" factors.

    With long ones in the place of the short ones it is, for every sequence beyond the original length, what
    it was. Raises InputError for other factors, UnsupportedError where config.json has none.
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
