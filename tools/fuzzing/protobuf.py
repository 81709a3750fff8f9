"""Mutations of a protobuf message's fields: ONNX files and SentencePiece models."""

from random import Random
from typing import Any

from google.protobuf.message import Message

from fuzzing import json_values, raw_bytes

NUMBERS = (0, 1, -1, 2, 3, 7, 15, 16, 99, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
REALS = (0.0, -1.0, 1e38, -1e38, float("nan"), float("inf"))


def change(random: Random, data: bytes, kind: type[Message]) -> tuple[bytes, str]:
    """The message with one to three fields changed, and their descriptions; one in five by bytes."""
    if random.random() < 0.2:
        return raw_bytes.change(random, data)
    message, notes = kind.FromString(data), []
    for _ in range(random.choice((1, 1, 2, 3))):
        notes.append(_change(random, message))
    return message.SerializeToString(), ", ".join(notes)


def _change(random: Random, message: Any) -> str:
    """Descend to a message somewhere below, and change one of its fields."""
    path = []
    while True:
        fields = message.ListFields()
        inner = [(field, value) for field, value in fields if field.message_type is not None]
        if not inner or random.random() < 0.15:
            break
        field, value = random.choice(inner)
        if hasattr(value, "add"):
            place = random.randrange(len(value))
            value, name = value[place], f"{field.name}[{place}]"
        else:
            name = field.name
        path.append(name)
        message = value
    if not fields:
        return f"{'.'.join(path)} is empty"
    field, value = random.choice(fields)
    return f"{'.'.join((*path, field.name))} {_change_field(random, message, field, value)}"


def _change_field(random: Random, message: Any, field: Any, value: Any) -> str:
    repeated = hasattr(value, "extend")
    if random.random() < 0.15:
        message.ClearField(field.name)
        return "cleared"
    if repeated:
        return _change_items(random, field, value)
    if field.message_type is not None:
        return _change(random, value)
    new = _other(random, field, value)
    setattr(message, field.name, new)
    return f"{str(value)[:30]!r} -> {str(new)[:30]!r}"


def _change_items(random: Random, field: Any, items: Any) -> str:
    place, kind = random.randrange(len(items)), random.randrange(3)
    if kind == 0:
        del items[place]
        return f"[{place}] deleted"
    if kind == 1 or field.message_type is not None:
        items.append(items[place])
        return f"[{place}] twice"
    old, items[place] = items[place], _other(random, field, items[place])
    return f"[{place}] {str(old)[:30]!r} -> {str(items[place])[:30]!r}"


def _other(random: Random, field: Any, value: Any) -> Any:
    """Another valid value of the field's type."""
    if isinstance(value, str):
        texts = [text for text in json_values.TEXTS if "\ud800" not in text]
        return random.choice((*texts, value + "x", value[:-1], "Add", "Loop", "If", "/canary"))
    if isinstance(value, bytes):
        return raw_bytes.change(random, value)[0]
    if isinstance(value, float):
        return random.choice(REALS)
    if field.enum_type is not None:
        return random.choice([one.number for one in field.enum_type.values])
    if isinstance(value, bool):
        return not value
    low, high = (0, 2**32 - 1) if field.cpp_type == field.CPPTYPE_UINT32 else (-(2**31), 2**31 - 1)
    if field.cpp_type == field.CPPTYPE_INT64:
        low, high = -(2**63), 2**63 - 1
    elif field.cpp_type == field.CPPTYPE_UINT64:
        low, high = 0, 2**64 - 1
    return min(max(random.choice((*NUMBERS, value + 1, value - 1)), low), high)
