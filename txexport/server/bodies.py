"""What a request asks for: read within limits, and held against a schema, which the pages show too."""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from starlette.requests import Request

from txexport.errors import shown
from txexport.server.refusals import RefusedError

UPLOAD = 30.0  # seconds that a body may take to arrive
Schema: TypeAlias = dict[str, Any]  # JSON Schema with `required` in it: what `fits` reads of that

KINDS: dict[str, Any] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


async def read_bytes(request: Request, most: int) -> bytes:
    """A body. Raises RefusedError: 408 where it comes too slowly, 413 where it has more than `most` bytes."""
    too_large = RefusedError(f"the body has more than {most:,} bytes", 413)
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(UPLOAD):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise RefusedError(f"the body took more than {UPLOAD:g} seconds", 408) from None
    return bytes(body)


async def read_json(request: Request, fields: Mapping[str, Schema], most: int) -> dict[str, Any]:
    """The values of a JSON object by name, those that are null left out. Raises RefusedError as `fitted`."""
    return fitted(parsed(await read_bytes(request, most)), fields)


def parsed(body: bytes) -> Any:
    """The JSON of a body. Raises RefusedError."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise RefusedError("the body is nested too deeply") from None
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        raise RefusedError(f"the body is no JSON in UTF-8: {error}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def fitted(asked: Any, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """An object's values by name. Raises RefusedError for what is missing, unknown or of another kind."""
    if not isinstance(asked, dict):
        raise RefusedError(f"the body is {shown(asked)}, expected an object")
    values = {name: value for name, value in asked.items() if value is not None}
    for name, value in values.items():
        if name not in fields:
            raise RefusedError(f"no field {shown(name)}; expected some of {', '.join(fields)}", param=name)
        if not fits(value, fields[name]):
            raise RefusedError(f"{name} is {shown(value)}, expected {expected(fields[name])}", param=name)
    for name, schema in fields.items():
        if schema.get("required") and name not in values:
            raise RefusedError(f"{name} is missing, expected {expected(schema)}", param=name)
    return values


def fits(value: Any, schema: Schema) -> bool:
    """Tell whether a value is of a schema."""
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
        return _is_text(value) and len(value) >= schema.get("minLength", 0)
    if kind == "array":
        within = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf)
        return within and all(fits(one, schema["items"]) for one in value)
    return True


def _is_text(value: str) -> bool:
    """Whether it can be written: JSON may hold half a character."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def expected(schema: Schema) -> str:
    """A schema in words."""
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
        count = f"{low} to {high} of " if high is not None else ""
        return f"a list of {count}{expected(schema['items'])}"
    return {"string": "a text", "boolean": "true or false", "object": "an object"}[kind]
