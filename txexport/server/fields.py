"""The generation fields of requests, and the options of Model.generate that they become."""

from collections.abc import Mapping
from typing import Any

from txexport.server.bodies import Schema
from txexport.server.refusals import RefusedError, as_json

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
MODEL: dict[str, Schema] = {
    "model": {"type": "string", "required": True, "description": "One of GET /v1/models."}
}
SEVERAL = 16  # most answers to one prompt
STOPS = 16  # most stop strings

# Names and meaning are OpenAI's.
SAMPLING: dict[str, Schema] = {
    "temperature": {
        "type": "number",
        "minimum": 0,
        "maximum": 100,
        "description": "0 takes the likeliest token; anything else draws. By default as the checkpoint says.",
    },
    "top_p": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "0 takes the likeliest token, as temperature does.",
    },
    "n": {"type": "integer", "minimum": 1, "maximum": SEVERAL, "description": "Answers to each prompt."},
    "seed": {
        "type": "integer",
        "minimum": -(2**63),
        "maximum": 2**63 - 1,
        "description": "Draw the same tokens each time.",
    },
    "stop": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": STOPS, "minItems": 0},
        ],
        "expected": f"a text or a list of up to {STOPS}, none of them empty",
        "description": "Texts before which an answer ends.",
    },
    "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "logit_bias": {"type": "object", "description": "A number to add to the logits of tokens, by their ids."},
    "stream": FLAG,
    "stream_options": {"type": "object", "description": 'As {"include_usage": true}.'},
}
# Names and meaning are those of Model.generate's options; OpenAI's client sends them by `extra_body`.
OWN: dict[str, Schema] = {
    "top_k": {"type": "integer", "minimum": 0, "maximum": 1000},
    "min_p": {"type": "number", "minimum": 0, "maximum": 1},
    "typical_p": {"type": "number", "minimum": 0.0001, "maximum": 1},
    "repetition_penalty": {"type": "number", "minimum": 0.1, "maximum": 10},
    "no_repeat_ngram_size": {"type": "integer", "minimum": 0, "maximum": 100},
    "min_new_tokens": {"type": "integer", "minimum": 0},
    "num_beams": {"type": "integer", "minimum": 1, "maximum": SEVERAL, "description": "Search; no stream."},
    "length_penalty": {"type": "number", "minimum": -10, "maximum": 10},
    "early_stopping": FLAG,
}
# Fields of other servers that are accepted without effect.
NO_EFFECT: dict[str, Schema] = {
    "user": TEXT,
    "metadata": {"type": "object"},
    "safety_identifier": TEXT,
    "prompt_cache_key": TEXT,
    "store": {"enum": [False]},
    "service_tier": TEXT,
}
DEADLINE: dict[str, Schema] = {
    "timeout": {
        "type": "number",
        "minimum": 0.001,
        "description": "Seconds that the answer may take, where the server does not give fewer.",
    }
}
GENERATION = SAMPLING | OWN | NO_EFFECT | DEADLINE
DRAWN = ("temperature", "top_p", "top_k", "min_p", "typical_p", "seed")
SAME = (*OWN, "presence_penalty", "frequency_penalty", "logit_bias")


def options_of(body: Mapping[str, Any], draws: bool) -> dict[str, Any]:
    """Options of Model.generate; `draws` is the checkpoint's do_sample, the default.

    A `temperature` above 0 samples, and so does a `top_p` below 1 without a temperature; where either is 0,
    decoding is greedy.
    """
    options = {name: body[name] for name in SAME if name in body}
    temperature, top_p = body.get("temperature"), body.get("top_p", 1)
    if temperature is not None:
        draws = temperature > 0
    draws = top_p > 0 and (draws or (temperature is None and top_p < 1))
    if draws:
        options |= {name: body[name] for name in DRAWN if name in body}
        if "seed" in options:
            options["seed"] %= 2**64
    else:
        options = {name: value for name, value in options.items() if name not in DRAWN}
    options["do_sample"] = draws
    stop = body.get("stop", [])
    if stop:
        options["stop_strings"] = [stop] if isinstance(stop, str) else stop
    return options


def include_usage(body: Mapping[str, Any]) -> bool:
    """Return whether a stream ends with its token usage. Raises RefusedError."""
    chosen = body.get("stream_options", {})
    if chosen and not body.get("stream"):
        raise RefusedError("stream_options needs stream=true", param="stream_options")
    for name, value in chosen.items():
        if name not in ("include_usage", "include_obfuscation") or not isinstance(value, bool):
            raise RefusedError(
                f"stream_options has {name}={as_json(value)}, expected include_usage", param="stream_options"
            )
    return chosen.get("include_usage", False)
