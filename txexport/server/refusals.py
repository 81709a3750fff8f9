"""Error answers, in the format of OpenAI's client."""

import contextlib
import logging
import re
import tempfile
from collections.abc import Iterator, Mapping
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
RETRY = 2  # seconds, until a client may try again when the queue is full


class RefusedError(Exception):
    """A request that is refused, with a message of one line; `param` is the field at fault."""

    def __init__(self, message: str, status: int = 400, *, param: str | None = None, **headers: str):
        super().__init__(str(TxexportError(message)))  # one printable line
        self.status, self.param = status, param
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


def refusal_of(error: BaseException, paths: Mapping[Path, str]) -> RefusedError:
    """The answer to an error: its message where a client can act on it, otherwise its type alone.

    Errors of the server itself are logged, since they may name files. In messages, the server's folders in
    `paths` are replaced by their names.
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, MissingLibraryError):
        return RefusedError(PLACES.sub("", str(error)), 501)
    if isinstance(error, TOLD) and not isinstance(error, EngineError):
        return RefusedError(renamed(str(error), paths), 400)
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
    return RefusedError(f"no model {shown(name)}; expected one of {', '.join(known)}", 404, param="model")
