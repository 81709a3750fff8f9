"""Names of what a decoder keeps between steps: the past that its graph takes, and the present that it gives.

Keys and values grow by the new tokens: `past_key_values.{layer}.key`. States have a fixed size:
`past_conv.{layer}`, the last inputs of a convolution, `past_recurrent.{layer}`, the matrices of linear
attention, `past_ssm.{layer}`, those of state spaces. RWKV's are the last token of each sublayer,
`past_time_shift.{layer}` and `past_channel_shift.{layer}`, and `past_numerator.{layer}`,
`past_denominator.{layer}` and `past_maximum.{layer}`, sums of past tokens. With an encoder there are two
parts: the decoder's own keys and values, and those of the encoder's output, which cross-attention reads and
no step changes: `past_key_values.{layer}.encoder.key`.
"""

import math
from collections.abc import Iterable, Sequence

from txexport.spec import BlockSpec

PAST, PRESENT = "past_key_values", "present"
ENCODER, DECODER = "encoder", "decoder"  # the parts
SHIFTS = ("time_shift", "channel_shift")  # kinds of states: last tokens
SUMS = ("numerator", "denominator", "maximum")  # weighted sums of past ones
STATES = ("conv", "recurrent", "ssm", *SHIFTS, *SUMS)
PAST_STATES, PRESENT_STATES = (tuple(f"{time}_{kind}." for kind in STATES) for time in ("past", "present"))


def past(layer: int | str, part: str | None = None) -> tuple[str, str]:
    """The inputs of a layer's keys and values."""
    return pair(PAST, layer, part)


def present(layer: int | str, part: str | None = None) -> tuple[str, str]:
    """The outputs of a layer's keys and values."""
    return pair(PRESENT, layer, part)


def pair(kind: str, layer: int | str, part: str | None) -> tuple[str, str]:
    """The keys and values of a layer, of `kind` PAST or PRESENT."""
    name = f"{kind}.{layer}" if part is None else f"{kind}.{layer}.{part}"
    return f"{name}.key", f"{name}.value"


def of_layer(kind: str, layer: int, block: BlockSpec, part: str | None = None) -> tuple[str, ...]:
    """The names of a layer's keys and values and of its states, of `kind` PAST or PRESENT."""
    keys = pair(kind, layer, part) if block.has_keys else ()
    return *keys, *states(kind, layer, block.states)


def states(kind: str, layer: int | str, kinds: Iterable[str]) -> tuple[str, ...]:
    """The names of a layer's states, of `kinds` in STATES; `kind` is PAST or PRESENT."""
    time = "past" if kind == PAST else "present"
    return tuple(f"{time}_{one}.{layer}" for one in kinds)


def is_past(name: str) -> bool:
    """Tell whether an input of that name has past keys or values, or a state."""
    return name.startswith((f"{PAST}.", *PAST_STATES))


def is_present(name: str) -> bool:
    """Tell whether an output of that name has keys or values, or a state."""
    return name.startswith((f"{PRESENT}.", *PRESENT_STATES))


def is_state(name: str) -> bool:
    """Tell whether an input or output of that name is a state, whose size no step changes."""
    return name.startswith((*PAST_STATES, *PRESENT_STATES))


def numbers_of_token(name: str, shape: Sequence[int]) -> int:
    """The numbers of one token in a row's state of that name and shape; 0 where it is no list of tokens.

    The last inputs of a convolution (W,K) have W for each, a last token (W) is all of it.
    """
    kind = name.split(".")[0].partition("_")[2]
    if kind == STATES[0]:
        return math.prod(shape[:-1])
    return math.prod(shape) if kind in SHIFTS else 0


def is_cross(name: str) -> bool:
    """Tell whether the keys or values of that name are those of an encoder's output."""
    return f".{ENCODER}." in name


def in_decoder(name: str) -> str:
    """The name of keys or values of no part as those of the decoder's own; other names are as they were."""
    kind, *others = name.split(".")
    return (
        ".".join([kind, others[0], DECODER, others[1]])
        if kind in (PAST, PRESENT) and len(others) == 2
        else name
    )


def own_past(names: Iterable[str]) -> list[str]:
    """The inputs among `names` that are a decoder's own keys and values."""
    return [name for name in names if is_past(name) and not is_state(name) and not is_cross(name)]


def past_states(names: Iterable[str]) -> list[str]:
    """The inputs among `names` that are states."""
    return [name for name in names if name.startswith(PAST_STATES)]


def to_present(name: str) -> str:
    """The output that continues the input `name`."""
    return name.replace("past", "present", 1) if is_state(name) else name.replace(PAST, PRESENT, 1)


def to_past(name: str) -> str:
    """The input that takes the output `name`."""
    return name.replace("present", "past", 1) if is_state(name) else name.replace(PRESENT, PAST, 1)


def layer_of(name: str) -> int:
    """The layer of the keys, values or state of that name."""
    return int(name.split(".")[1])
