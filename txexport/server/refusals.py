"""Answers to what is not served, in the shape that OpenAI's client reads."""

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
TOLD = (InputError, BundleError, UnsupportedError)  # a bundle that has no part for what is asked, too
PLACES = re.compile(r" ?\((?:/|\w:\\)[^()]*\)")  # where Python found a library of another version
RETRY = 2  # seconds, for who finds the queue full


class RefusedError(Exception):
    """One line of why a request is not answered; `param` is the field at fault."""

    def __init__(self, message: str, status: int = 400, *, param: str | None = None, **headers: str):
        super().__init__(str(TxexportError(message)))  # one line of what can be shown
        self.status, self.param = status, param
        self.headers = {name.replace("_", "-").title(): value for name, value in headers.items()}

    @property
    def body(self) -> dict:
        """What is sent."""
        default = "invalid_request_error" if self.status < 500 else "server_error"
        kind = TYPES.get(self.status, default)
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": None}}

    def response(self) -> JSONResponse:
        """The whole answer."""
        return JSONResponse(self.body, self.status, self.headers)


def refusal_of(error: BaseException, paths: Mapping[Path, str]) -> RefusedError:
    """An error of a model as the answer to who asked: its words where a client can act on them.

    What is the server's own is for its log, and may name files: who asked is told the kind alone. Of `paths`,
    the server's folders, the names stand in their place.
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
    """A text with names in the place of the paths of folders, of which one may lie in another."""
    for path, name in sorted(paths.items(), key=lambda one: -len(str(one[0]))):
        parts = re.split(rf"(?<![\w./-]){re.escape(str(path))}(?![\w.-])", text)
        text = name.join(parts)
    return text


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for what a client has sent, which errors do not name: what they tell of is its file."""
    with tempfile.TemporaryDirectory(prefix="txexport-") as folder:
        try:
            yield Path(folder)
        except TxexportError as error:
            error.args = (str(error).replace(f"{folder}/", ""),)
            raise


def full() -> RefusedError:
    """For who comes when too many wait."""
    return RefusedError("too many requests are waiting; try again later", 429, retry_after=str(RETRY))


def too_late(seconds: float) -> RefusedError:
    """For whose answer took too long."""
    return RefusedError(f"the answer took more than {seconds:g} seconds; ask for less, or later", 504)


def unknown_model(name: object, known: list[str]) -> RefusedError:
    """For who asks for a model that is not here."""
    return RefusedError(f"no model {shown(name)}; expected one of {', '.join(known)}", 404, param="model")
