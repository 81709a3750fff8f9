"""Names of keys and values: the past that a decoder's graph takes, and the present that it gives.

With an encoder there are two parts: the decoder's own keys and values, and those of the encoder's output,
which cross-attention reads and no step changes: `past_key_values.{layer}.encoder.key`.
"""

from collections.abc import Iterable

PAST, PRESENT = "past_key_values", "present"
ENCODER, DECODER = "encoder", "decoder"  # the parts


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


def is_past(name: str) -> bool:
    """Tell whether an input of that name has past keys or values."""
    return name.startswith(f"{PAST}.")


def is_present(name: str) -> bool:
    """Tell whether an output of that name has keys or values."""
    return name.startswith(f"{PRESENT}.")


def is_cross(name: str) -> bool:
    """Tell whether the keys or values of that name are those of an encoder's output."""
    return f".{ENCODER}." in name


def own_past(names: Iterable[str]) -> list[str]:
    """The inputs among `names` that are a decoder's own keys and values."""
    return [name for name in names if is_past(name) and not is_cross(name)]


def to_present(name: str) -> str:
    """The output that continues the input `name`."""
    return name.replace(PAST, PRESENT, 1)


def to_past(name: str) -> str:
    """The input that takes the output `name`."""
    return name.replace(PRESENT, PAST, 1)


def layer_of(name: str) -> int:
    """The layer of the keys or values of that name."""
    return int(name.split(".")[1])
