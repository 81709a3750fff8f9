"""Request bodies: read within limits, and validated by a schema, which the pages show too."""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from txexport.server.refusals import RefusedError, as_json, full
from txexport.support.near_names import did_you_mean

UPLOAD = 30.0  # seconds that a body may take to arrive
LARGE = 2**16  # bytes; larger bodies are parsed and tokenized one at a time
VALUES = 2**20  # most commas and brackets of a body
AT_ONCE = 8  # bodies of the largest size that may be in memory
T = TypeVar("T")
# The part of JSON Schema that `fits` reads; `required` in each field; `expected` in error messages.
Schema: TypeAlias = dict[str, Any]
OWN_KEYS = ("required", "expected")

KINDS: dict[str, Any] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class Room:
    """The bytes of request bodies that may still be held in memory."""

    def __init__(self, most: int):
        self.left = most

    def take(self, request: Request, count: int) -> None:
        """Count bytes of a request's body. Raises RefusedError where all bodies together are too large."""
        if count > self.left:
            raise full()
        self.left -= count
        request.state.held = held(request.scope) + count

    def give_back(self, scope: Mapping[str, Any]) -> None:
        """Release the body of a finished request."""
        self.left += held(scope)


def held(scope: Mapping[str, Any]) -> int:
    """The bytes of a request's body in memory."""
    return scope.get("state", {}).get("held", 0)


async def work(request: Request, function: Callable[..., T], *arguments: Any) -> T:
    """Run `function` in a thread; for large bodies one at a time, since each takes much memory."""
    large = held(request.scope) > LARGE
    one: AbstractAsyncContextManager = request.app.state.large if large else nullcontext()
    async with one:
        return await run_in_threadpool(function, *arguments)


async def read_bytes(request: Request, most: int) -> bytes:
    """Read a body.

    Raises RefusedError: 408 where it arrives too slowly, 413 where it has more than `most` bytes, 429 where
    too many others are in memory.
    """
    too_large = RefusedError(f"the body has more than {most:,} bytes", 413)
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(UPLOAD):
            async for chunk in request.stream():
                if len(body) + len(chunk) > most:
                    raise too_large
                request.app.state.room.take(request, len(chunk))
                body += chunk
    except TimeoutError:
        raise RefusedError(f"the body took more than {UPLOAD:g} seconds", 408) from None
    return bytes(body)


async def read_json(request: Request, fields: Mapping[str, Schema], most: int) -> dict[str, Any]:
    """The values of a JSON object by name, without those that are null. Raises RefusedError as `fitted`."""
    body = await read_bytes(request, most)
    return await work(request, lambda: fitted(parsed(body), fields))


def parsed(body: bytes) -> Any:
    """The JSON of a body. Raises RefusedError."""
    if sum(map(body.count, (b",", b"[", b"{"))) > VALUES:  # each of which takes some hundred bytes
        raise RefusedError(f"the body has more than {VALUES:,} commas and brackets", 413)
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise RefusedError("the body is nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise RefusedError(f"the body is not JSON in UTF-8: {error}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def fitted(body: Any, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """An object's values by name. Raises RefusedError for a missing, unknown or invalid field."""
    if not isinstance(body, dict):
        raise RefusedError(f"the body is {as_json(body)}, expected an object")
    values = {name: value for name, value in body.items() if value is not None}
    for name, value in values.items():
        if name not in fields:
            hint = did_you_mean(name, fields, otherwise=f"expected some of {', '.join(fields)}")
            raise RefusedError(f"no field {as_json(name)}{hint}", param=name)
        if not _is_unicode(value):
            raise RefusedError(f"{name} is not valid Unicode: {as_json(value)}", param=name)
        if not fits(value, fields[name]):
            raise RefusedError(f"{name} is {as_json(value)}, expected {expected(fields[name])}", param=name)
    for name, schema in fields.items():
        if schema.get("required") and name not in values:
            state = "null" if name in body else "missing"
            raise RefusedError(f"{name} is {state}, expected {expected(schema)}", param=name)
    return values


def fits(value: Any, schema: Schema) -> bool:
    """Return whether a value is valid for a schema."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return any(value == one and type(value) is type(one) for one in schema["enum"])
    kind: str = schema["type"]
    if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        return low <= value <= high and (isinstance(value, int) or math.isfinite(value))
    if kind == "string":
        return len(value) >= schema.get("minLength", 0)
    if kind == "array":
        within = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf)
        return within and all(fits(one, schema["items"]) for one in value)
    return True


def _is_unicode(value: Any) -> bool:
    """Return whether all texts in a value are valid Unicode; JSON may hold half of a surrogate pair."""
    values = [value]
    while values:
        one = values.pop()
        if isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError:
                return False
        elif isinstance(one, list):
            values += one
        elif isinstance(one, dict):
            values += [*one, *one.values()]
    return True


def expected(schema: Schema) -> str:
    """A description of a schema, for error messages."""
    if "expected" in schema:
        return str(schema["expected"])
    if "anyOf" in schema:
        return " or ".join(expected(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(json.dumps(one) for one in schema["enum"])
    kind = schema["type"]
    if kind in ("integer", "number"):
        what = "a whole number" if kind == "integer" else "a number"
        ends = [
            f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema
        ]
        return " ".join([what, *ends])
    if kind == "array":
        low, high = schema.get("minItems"), schema.get("maxItems")
        count = f"{low} to {high} items, each " if high is not None else ""
        return f"a list of {count}{expected(schema['items'])}"
    if schema.get("minLength"):
        return "a text that is not empty"
    return {"string": "a text", "boolean": "true or false", "object": "an object"}[kind]
