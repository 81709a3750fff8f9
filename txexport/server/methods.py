"""POST /v1/tasks/METHOD: the methods of Model for a bundle's task, with their arguments in Python."""

import base64
import functools
import inspect
import json
import types
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin, is_typeddict

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from txexport.errors import InputError
from txexport.runtime import Model
from txexport.runtime.generation.length_limits import new_tokens
from txexport.runtime.run_lengths import run_lengths
from txexport.server.bodies import Schema, read_json
from txexport.server.embeddings import needs
from txexport.server.fields import MODEL, SEVERAL
from txexport.server.refusals import RefusedError, as_json, naming, temporary_folder
from txexport.server.served import Limits, Served, find
from txexport.server.streams import answered
from txexport.server.texts import check_together, groups
from txexport.support.near_names import did_you_mean
from txexport.tasks import METHODS as RECORDS

METHODS = sorted(name for name, record in RECORDS.items() if record.endpoint is None)
# Arguments that a request cannot set.
SERVER_ARGUMENTS = {"self", "progress", "batch_tokens", "batch_size", "first_place"}
PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}
OPTIONS: dict[str, Schema] = {
    "max_new_tokens": {"type": "integer", "minimum": 1},
    "num_beams": {"type": "integer", "minimum": 1, "maximum": SEVERAL},
}
FILES = ("images", "sounds")  # arguments that are paths in Python, and the files' contents in a request
PAGES, OF_PAGE = "pages", "image"  # an argument whose values may have such a file
BATCH = 8  # files that run together
_BASE64: Schema = {"type": "string", "minLength": 1, "description": "A file in base64, or a data URL of it."}
FILE: Schema = {"anyOf": [_BASE64, {"type": "array", "items": _BASE64, "minItems": 1}]}


async def task(request: Request) -> Response:
    """Answer a request for one method."""
    limits: Limits = request.app.state.limits
    method = request.path_params["method"]
    if method not in METHODS:
        record = RECORDS.get(method)
        if record is None:
            other = did_you_mean(method, METHODS, otherwise=f"expected {', '.join(METHODS)}")
        else:
            other = f"; see POST {record.endpoint}"
        raise RefusedError(f"no task {as_json(method)}{other}", 404)
    fields = fields_of(method)
    has_files = not fields.keys().isdisjoint((*FILES, PAGES))
    body = await read_json(request, fields, limits.max_body if has_files else limits.most_text)
    served = find(request.app.state.served, body.pop("model"))
    wanted, most = body.get("max_new_tokens", 1), limits.max_new_tokens
    if wanted > most:
        raise RefusedError(
            f"max_new_tokens is {wanted}, and this server gives at most {most}", param="max_new_tokens"
        )
    needs(served, method)
    texts = [value for name, value in body.items() if name not in FILES]
    check_together(*texts, most=limits.most_text, crossed=RECORDS[method].crossed)
    first, *others = required(method)
    if others or len(RECORDS[method].inputs) > 1:
        call = served.calls.call(lambda bodies: [run(served, limits, method, bodies[0])], [body])
        with naming(fields):
            [answer] = await answered(request, call)
        return _json(answer)
    inputs = body.pop(first)
    several = isinstance(inputs, list)

    def together(items: list) -> Iterator:
        start = 0
        for part in _batches(items) if first in (*FILES, PAGES) else groups(items):
            yield from run(served, limits, method, {first: part, **body}, start)
            start += len(part)

    key = (method, json.dumps(body, sort_keys=True))
    with naming(fields):
        answers = await answered(request, served.calls.call(together, inputs if several else [inputs], key))
    return _json(answers if several else answers[0])


def _batches(files: list) -> Iterator[list]:
    """Batches of files as a model runs them; a call can be cancelled between them."""
    for start in range(0, len(files), BATCH):
        yield files[start : start + BATCH]


def run(served: Served, limits: Limits, method: str, arguments: dict[str, Any], start: int = 0) -> Any:
    """Call a method with its files in a temporary folder, within the limits of /v1/completions.

    Errors count the files of a list from `start`.
    """
    bundle = served.model.bundle
    if served.generation is not None:
        arguments = arguments | {"batch_tokens": limits.cache_tokens}
        config, longest = bundle.files.generation_config, bundle.manifest.limits["decoder"]
        if (
            "max_new_tokens" not in arguments
            and new_tokens(1, config, longest, False) > limits.max_new_tokens
        ):
            arguments["max_new_tokens"] = limits.max_new_tokens
    with temporary_folder() as folder:
        for name in arguments.keys() & FILES:
            value = arguments[name]
            listed = value if isinstance(value, list) else [value]
            numbers = range(start, start + len(listed))
            names = [f"{name}[{number}]" for number in numbers] if listed is value else [name]
            paths = [_file(folder / filename, one) for filename, one in zip(names, listed, strict=True)]
            arguments = arguments | {name: paths if isinstance(value, list) else paths[0]}
        if PAGES in arguments:
            arguments = arguments | {PAGES: _pages(folder, arguments[PAGES], start)}
        return getattr(served.model, method)(**arguments)


def _pages(folder: Path, value: Any, start: int) -> Any:
    """Pages with the paths of their images, which are sent in base64. Raises RefusedError, InputError."""
    if isinstance(value, list):
        return [_page(folder / f"{PAGES}[{number}]", page) for number, page in enumerate(value, start)]
    return _page(folder / PAGES, value)


def _page(path: Path, page: Any) -> Any:
    """A page, with its image in a file; the method checks all else."""
    if not isinstance(page, dict) or page.get(OF_PAGE) is None:
        return page
    if not isinstance(page[OF_PAGE], str):
        raise RefusedError("the image of a page is no text; send its bytes in base64", param=PAGES)
    return page | {OF_PAGE: _file(path, page[OF_PAGE])}


def _file(path: Path, value: str) -> Path:
    """Write a file sent in base64; names from a client are never paths. Raises InputError."""
    head, comma, rest = value.partition(",")
    try:
        path.write_bytes(base64.b64decode(rest if comma else head, validate=True))
    except ValueError:  # binascii's too
        raise InputError(f"{path.name} is not valid base64; send its bytes in base64") from None
    return path


@functools.cache
def required(method: str) -> list[str]:
    """The names of a method's arguments without a default."""
    return [
        name
        for name, one in inspect.signature(getattr(Model, method)).parameters.items()
        if one.default is one.empty and name not in SERVER_ARGUMENTS and one.kind is not one.VAR_KEYWORD
    ]


@functools.cache
def fields_of(method: str) -> dict[str, Schema]:
    """The fields of a request: a method's arguments."""
    fields = dict(MODEL)
    for name, one in inspect.signature(getattr(Model, method)).parameters.items():
        if one.kind is one.VAR_KEYWORD:
            fields |= OPTIONS
        elif name not in SERVER_ARGUMENTS:
            schema = FILE if name in FILES else schema_of(one.annotation)
            fields[name] = schema | ({"required": True} if one.default is one.empty else {})
    return fields


def schema_of(hint: Any) -> Schema:
    """The schema of an annotation."""
    if is_typeddict(hint):
        return {"type": "object"}  # whose fields the method checks
    if hint in PLAIN:
        return PLAIN[hint]
    inner = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        options = list(map(schema_of, inner))
        return options[0] if len(options) == 1 else {"anyOf": options}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": schema_of(inner[0]), "minItems": len(inner), "maxItems": len(inner)}
    if isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Collection):
        return {"type": "array", "items": schema_of(inner[0]), "minItems": 0}
    raise TypeError(f"{hint} is no type of JSON; give it a schema in FILES or PLAIN")


def _json(answer: Any) -> Response:
    return Response(json.dumps(answer, default=_plain), media_type="application/json")


def _plain(value: Any) -> Any:
    """NumPy values as Python values, masks as the lengths of their runs."""
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return run_lengths(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON")
