"""Validation of a request: its size, its keys, their types and ranges. Anything else is refused."""

import asyncio
import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

BYTES = 65_536  # of a body
PROMPTS = 16  # per request
NEW_TOKENS = 512  # per prompt
UPLOAD = 10.0  # seconds until a body must have arrived

# Generation options with their types and ranges. Others are refused: max_length would bypass the limit of
# new tokens, and callers have no use for lists of token ids.
OPTIONS: dict[str, tuple[type, float, float]] = {
    "max_new_tokens": (int, 1, NEW_TOKENS),
    "min_new_tokens": (int, 0, NEW_TOKENS),
    "num_beams": (int, 1, 8),
    "length_penalty": (float, -10, 10),
    "early_stopping": (bool, 0, 1),
    "do_sample": (bool, 0, 1),
    "seed": (int, 0, 2**32 - 1),
    "temperature": (float, 0.01, 100),
    "top_k": (int, 0, 1000),
    "top_p": (float, 0.01, 1),
    "repetition_penalty": (float, 0.1, 10),
    "presence_penalty": (float, -2, 2),
    "frequency_penalty": (float, -2, 2),
    "no_repeat_ngram_size": (int, 0, 100),
}


async def read(request: Request) -> dict[str, Any]:
    """The JSON object of a body. Raises HTTPException: 400 if there is none, 408 too slow, 413 too large."""
    body = bytearray()
    try:
        async with asyncio.timeout(UPLOAD):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BYTES:
                    raise refused(f"the body has more than {BYTES} bytes", 413)
    except TimeoutError:
        raise refused(f"the body took more than {UPLOAD:g} seconds", 408) from None
    try:
        fields = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise refused("the body is nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, or a number with thousands of digits
        raise refused(f"the body is no JSON in UTF-8: {error}") from None
    if not isinstance(fields, dict):
        raise refused(f"the body is no JSON object but a {type(fields).__name__}")
    return fields


def options(fields: dict[str, Any]) -> dict[str, Any]:
    """The generation options in `asked`. Raises HTTPException for an unknown key or a value out of range."""
    for name, value in fields.items():
        if name not in OPTIONS:
            raise refused(f"no option {name!r:.60}; expected some of {', '.join(OPTIONS)}")
        kind, low, high = OPTIONS[name]
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits or not low <= value <= high:
            wanted = "true or false" if kind is bool else f"{kind.__name__} from {low:,} to {high:,}"
            raise refused(f"{name} is {value!r:.60}, expected {wanted}")
    return {"max_new_tokens": 20, **fields}


def prompt(fields: dict[str, Any]) -> str:
    """Remove the prompt from `asked` and return it. Raises HTTPException."""
    return text(fields.pop("prompt", None))


def prompts(fields: dict[str, Any]) -> list[str]:
    """Remove the prompts from `asked` and return them. Raises HTTPException."""
    listed = fields.pop("prompts", None)
    if not isinstance(listed, list) or not 1 <= len(listed) <= PROMPTS:
        raise refused(f"prompts is {listed!r:.60}, expected a list of 1 to {PROMPTS} texts")
    return [text(one) for one in listed]


def text(value: Any) -> str:
    """Check that a value is a text that UTF-8 can encode. Raises HTTPException."""
    if not isinstance(value, str):
        raise refused(f"a text is {type(value).__name__}, expected str")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise refused(f"a text has half a character (a lone surrogate) at {error.start}") from None
    return value


def refused(message: str, status: int = 400, **headers: str) -> HTTPException:
    """An error response of one line; keyword arguments are headers, as in `retry_after=5`."""
    line = " ".join(message.split())
    names = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return HTTPException(status, f"{line}\n", names)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
