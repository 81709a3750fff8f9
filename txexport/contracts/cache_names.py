"""Names of keys and values: what a decoder's graph takes of the past, and gives for the next step.

Behind an encoder they are of two parts, the decoder's own and the encoder's, which cross-attention reads and
which no step changes: `past_key_values.{layer}.encoder.key`.
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
    """Whether keys or values of the past go in by that name."""
    return name.startswith(f"{PAST}.")


def is_present(name: str) -> bool:
    """Whether keys or values come out by that name."""
    return name.startswith(f"{PRESENT}.")


def is_cross(name: str) -> bool:
    """Whether keys or values are of an encoder's tokens."""
    return f".{ENCODER}." in name


def own_past(names: Iterable[str]) -> list[str]:
    """Those of the inputs that are keys and values of a decoder's own tokens."""
    return [name for name in names if is_past(name) and not is_cross(name)]


def to_present(name: str) -> str:
    """The output that follows from the input `name`."""
    return name.replace(PAST, PRESENT, 1)


def to_past(name: str) -> str:
    """The input that takes the output `name`."""
    return name.replace(PRESENT, PAST, 1)


def layer_of(name: str) -> int:
    """The layer whose keys or values go by that name."""
    return int(name.split(".")[1])
