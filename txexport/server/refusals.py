"""Error answers, in the format of OpenAI's client."""

import contextlib
import json
import logging
import re
import tempfile
from collections.abc import Container, Iterator, Mapping
from functools import partial
from pathlib import Path

from starlette.responses import JSONResponse

from txexport.errors import (
    BundleError,
    EngineError,
    InputError,
    MissingLibraryError,
    TxexportError,
    UnsupportedError,
    shown,
)
from txexport.support.printable import line

LOG = logging.getLogger("txexport.serve")

TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
TOLD = (InputError, BundleError, UnsupportedError)  # their messages are sent to the client
PLACES = re.compile(r" ?\((?:/|\w:\\)[^()]*\)")  # where Python found a library of another version
OTHER_FORMATS = re.compile(r", or for other formats pip install '.*")
INSTALL = re.compile(r"; pip install '.*")  # advice to who runs the server
# The start of a message about the inputs; others begin with the option at fault, or name none.
NAMED = re.compile(r"(?:image |sound )?(\w+)")
INPUTS = re.compile(r"(?:an?|image|sound|token ids) ")
# Fields of requests by what they are called in Python.
FIELDS = {
    "json_schema": ("response_format", "text"),
    "stop_strings": ("stop",),
    "grammar": ("tool_choice",),
    "max_new_tokens": ("max_tokens",),
}
RETRY = 2  # seconds, until a client may try again when the queue is full


class RefusedError(Exception):
    """A request that is refused, with a message of one line; `param` is the field at fault."""

    def __init__(self, message: str, status: int = 400, *, param: str | None = None, **headers: str):
        super().__init__(_printable(message))
        self.status, self.param = status, None if param is None else _printable(param)
        self.headers = {name.replace("_", "-").title(): value for name, value in headers.items()}

    @property
    def body(self) -> dict:
        """The JSON body of the answer."""
        default = "invalid_request_error" if self.status < 500 else "server_error"
        kind = TYPES.get(self.status, default)
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": None}}

    def response(self) -> JSONResponse:
        """The HTTP response."""
        return JSONResponse(self.body, self.status, self.headers)


def _printable(text: str) -> str:
    """A text as one printable line."""
    return str(TxexportError(text))


def as_json(value: object) -> str:
    """An untrusted value as JSON for a message: one line of bounded length."""
    return shown(value, partial(json.dumps, ensure_ascii=False))


@contextlib.contextmanager
def naming(fields: Container[str], inputs: str | None = None) -> Iterator[None]:
    """Name the field at fault in errors: one of `fields`, with which a message begins.

    Of errors about the inputs it is the field `inputs`. Raises RefusedError for InputError and
    MissingLibraryError.
    """
    try:
        yield
    except EngineError:
        raise
    except (InputError, MissingLibraryError) as error:
        refusal = refusal_of(error, {})
        message, start = str(refusal), NAMED.match(str(refusal))
        name = start[1] if start else ""
        param = next((one for one in FIELDS.get(name, (name,)) if one in fields), None)
        if param is not None and name != param:
            message = param + message.removeprefix(name)
        elif param is None and isinstance(error, InputError) and INPUTS.match(message):
            param = inputs
        refusal.args, refusal.param = (message,), param
        raise refusal from None


def refusal_of(error: BaseException, paths: Mapping[Path, str]) -> RefusedError:
    """The answer to an error: its message where a client can act on it, otherwise its type alone.

    Errors of the server itself are logged, since they may name files. In messages, the server's folders in
    `paths` are replaced by their names.
    """
    if isinstance(error, RefusedError):
        error.args = (renamed(str(error), paths),)
        return error
    if isinstance(error, MissingLibraryError):
        LOG.warning("%s", line(str(error)))
        message = INSTALL.sub(" on the server", PLACES.sub("", str(error)))
        return RefusedError(message, 501, x_should_retry="false")  # which OpenAI's clients read
    if isinstance(error, TOLD) and not isinstance(error, EngineError):
        message = OTHER_FORMATS.sub(": this server reads no other format", str(error))
        return RefusedError(renamed(message, paths), 400)
    LOG.error("%s", line(repr(error)), exc_info=error)
    return RefusedError(f"the server failed at this request: {type(error).__name__}", 500)


def renamed(text: str, paths: Mapping[Path, str]) -> str:
    """Replace the paths of folders, one of which may lie in another, by their names."""
    for path, name in sorted(paths.items(), key=lambda one: -len(str(one[0]))):
        parts = re.split(rf"(?<![\w./-]){re.escape(str(path))}(?![\w.-])", text)
        text = name.join(parts)
    return text


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for a client's files; error messages leave out its path."""
    with tempfile.TemporaryDirectory(prefix="txexport-") as folder:
        try:
            yield Path(folder)
        except TxexportError as error:
            error.args = (str(error).replace(f"{folder}/", ""),)
            raise


def full() -> RefusedError:
    """The answer where too many requests wait."""
    return RefusedError("too many requests are waiting; try again later", 429, retry_after=str(RETRY))


def too_late(seconds: float) -> RefusedError:
    """The answer to a request that took too long."""
    return RefusedError(f"the answer took more than {seconds:g} seconds; ask for less, or later", 504)


def unknown_model(name: object, known: list[str]) -> RefusedError:
    """The answer to a request for an unknown model."""
    return RefusedError(f"no model {as_json(name)}; expected one of {', '.join(known)}", 404, param="model")
