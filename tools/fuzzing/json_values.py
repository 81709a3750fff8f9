"""Mutations of a JSON file's keys and values."""

import copy
import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

from fuzzing import raw_bytes

DEEP, LONG = "@deep {}@", "@digits@"  # placeholders for values that json.dumps cannot write
DEPTHS = (200, 3000, 100_000)
NUMBERS = (
    *(0, -1, 1, 2, 3, 7, 100, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**64, 10**30, LONG),
    *(0.5, -0.0, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
)
TEXTS = (
    *("", " ", "gelu", "none", "NaN", "0", "../canary", "../../canary", "\0", "\ud800", "x" * 100_000),
    *(
        "{}",
        "{0.__class__}",
        "%s",
        "one\ntwo",
        "one\u2028two",
        "é",
        "🙂",
        "(.*a){25}b",
        "true",
        "model.safetensors",
    ),
)
OTHERS = (None, True, False, [], {}, [[]], [None], {"a": None}, [0] * 1000, *(DEEP.format(d) for d in DEPTHS))


def hostile(random: Random) -> Any:
    """A value that is invalid in any file."""
    return copy.deepcopy(random.choice(random.choice((NUMBERS, NUMBERS, TEXTS, OTHERS))))


def change(random: Random, data: bytes) -> tuple[bytes, str]:
    """The JSON file with one to three changes, and their descriptions; one in eight is a change of bytes."""
    if random.random() < 0.125:
        return raw_bytes.change(random, data)
    value, note = change_value(random, json.loads(data))
    text = dumps(value)
    if isinstance(value, dict) and value and random.random() < 0.05:
        key = random.choice(list(value))
        text, note = "{" + dumps({key: hostile(random)})[1:-1] + ", " + text[1:], f"{note}, '{key}' twice"
    return text.encode(), note


def change_value(random: Random, value: Any) -> tuple[Any, str]:
    """As `change`, of a parsed value."""
    root, notes = [copy.deepcopy(value)], []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        holder, key = _place(random, root)
        notes.append(
            random.choice(CHANGES)(random, holder, key, "the file" if holder is root else repr(key)[:40])
        )
        if not root:
            root.append(None)
    return root[0], ", ".join(notes)


def dumps(value: Any) -> str:
    """As JSON, with the placeholders of deep nesting and of many digits expanded."""
    text = json.dumps(value).replace(f'"{LONG}"', "1" * 5000)
    for depth in DEPTHS:
        text = text.replace(f'"{DEEP.format(depth)}"', "[" * depth + "]" * depth)
    return text


def _place(random: Random, root: list) -> tuple[Any, Any]:
    """A container and a key of it, more likely near the root."""
    holder, key = root, 0
    while (
        isinstance(inner := holder[key], dict | list) and inner and (holder is root or random.random() < 0.6)
    ):
        holder, key = inner, random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    return (root, 0) if random.random() < 0.02 else (holder, key)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _delete(random: Random, holder: Any, key: Any, name: str) -> str:
    del holder[key]
    return f"{name} deleted"


def _replace(random: Random, holder: Any, key: Any, name: str) -> str:
    old, holder[key] = holder[key], hostile(random)
    return f"{name} {_shown(old)} -> {_shown(holder[key])}"


def _nearby(random: Random, holder: Any, key: Any, name: str) -> str:
    """A value of the same type."""
    old = holder[key]
    if isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int | float):
        holder[key] = random.choice((old + 1, old - 1, old * 2, old // 2, -old, old * 1000, old + 0.5))
    elif isinstance(old, str):
        holder[key] = random.choice(
            (old.upper(), old[:-1], old + "x", old * 2, f" {old}", random.choice(TEXTS))
        )
    else:
        return _replace(random, holder, key, name)
    return f"{name} {_shown(old)} -> {_shown(holder[key])}"


def _retype(random: Random, holder: Any, key: Any, name: str) -> str:
    old = holder[key]
    forms: list[Any] = [str(old)[:10_000], [old], {"a": old}, [old, old]]
    if isinstance(old, int | float):
        forms += [float(old), bool(old)]
    holder[key] = random.choice(forms)
    return f"{name} {_shown(old)} -> {_shown(holder[key])}"


def _rename(random: Random, holder: Any, key: Any, name: str) -> str:
    if not isinstance(holder, dict):
        return _repeat(random, holder, key, name)
    new = random.choice((key + "x", key.upper(), key[:-1], random.choice(list(holder)), random.choice(TEXTS)))
    holder[new] = holder.pop(key)
    return f"{name} renamed to {_shown(new)}"


def _repeat(random: Random, holder: Any, key: Any, name: str) -> str:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
        return f"{name} twice"
    new = f"{key}_{random.randrange(3)}"
    holder[new] = copy.deepcopy(holder[key])
    return f"{name} as {new!r} too"


def _exchange(random: Random, holder: Any, key: Any, name: str) -> str:
    other = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]
    return f"{name} and {other!r} exchanged"


def _add(random: Random, holder: Any, key: Any, name: str) -> str:
    if not isinstance(holder, dict):
        return _replace(random, holder, key, name)
    new = random.choice(MORE)
    holder[new] = hostile(random)
    return f"{new!r} added: {_shown(holder[new])}"


# Valid keys that the seeds lack.
MORE = (
    *(
        "rope_scaling",
        "rope_parameters",
        "quantization_config",
        "auto_map",
        "task_specific_params",
        "num_labels",
    ),
    *(
        "id2label",
        "problem_type",
        "sliding_window",
        "layer_types",
        "architectures",
        "model_type",
        "text_config",
    ),
    *("max_length", "num_beams", "num_return_sequences", "length_penalty", "bad_words_ids", "sequence_bias"),
    *("chat_template", "added_tokens", "normalizer", "truncation", "padding", "model_max_length", "prompts"),
    *("do_pad", "size", "crop_size", "default_prompt_name", "max_seq_length", "__metadata__", "feature_size"),
)
CHANGES: tuple[Callable[[Random, Any, Any, str], str], ...] = (
    *(_delete, _replace, _replace, _replace, _nearby, _nearby, _retype, _rename, _repeat, _exchange),
    _add,
)
