"""The application: routes, API keys, and a line of log for each request."""

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from txexport.errors import TxexportError
from txexport.server.bodies import AT_ONCE, Room
from txexport.server.chat import chat_completions
from txexport.server.completions import completions
from txexport.server.embeddings import embeddings, rerank
from txexport.server.methods import task
from txexport.server.metrics import Metrics, metrics
from txexport.server.pages import docs, openapi
from txexport.server.refusals import RefusedError, refusal_of
from txexport.server.responses import responses
from txexport.server.served import Limits, Served, find
from txexport.server.transcriptions import transcriptions, translations
from txexport.support.near_names import did_you_mean
from txexport.support.printable import line

LOG = logging.getLogger("txexport.serve")
UNANSWERED = 499  # in logs, for a client that disconnected
# Paths without a key: they reveal nothing private.
OPEN = ("/health", "/healthz", "/readyz", "/docs", "/openapi.json")


def application(
    served: dict[str, Served], limits: Limits, keys: Sequence[str] = (), origins: Sequence[str] = ()
) -> Starlette:
    """The application over bundles by name; a request must carry one of `keys`, if there are any.

    Pages of the `origins` may send requests from a browser.
    """
    routes = [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/responses", responses, methods=["POST"]),
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/rerank", rerank, methods=["POST"]),
        Route("/v1/audio/transcriptions", transcriptions, methods=["POST"]),
        Route("/v1/audio/translations", translations, methods=["POST"]),
        Route("/v1/tasks/{method}", task, methods=["POST"]),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
        Route("/health", health),
        Route("/healthz", health),
        Route("/readyz", ready),
    ]
    handlers = {
        RefusedError: refuse,
        TxexportError: refuse,
        HTTPException: no_such,
        ClientDisconnect: gone,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.served, app.state.limits, app.state.metrics = served, limits, Metrics(served)
    folders = {path: one.name for one in served.values() for path in one.paths}
    app.state.paths = folders
    app.state.room, app.state.large = Room(AT_ONCE * limits.max_body), asyncio.Semaphore()
    app.add_middleware(Keys, keys=keys)
    if origins:  # outside the keys, which a browser does not send with its preflight request
        methods = ("GET", "POST")
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=methods,
            allow_headers=["*"],
            expose_headers=["Retry-After", "X-Should-Retry"],
        )
    app.add_middleware(Log, metrics=app.state.metrics, room=app.state.room, paths=folders)
    return app


async def models(request: Request) -> Response:
    """GET /v1/models."""
    listed = [card(one) for one in request.app.state.served.values()]
    return JSONResponse({"object": "list", "data": listed})


async def model(request: Request) -> Response:
    """GET /v1/models/NAME."""
    return JSONResponse(card(find(request.app.state.served, request.path_params["model"])))


def card(served: Served) -> dict:
    """A bundle in the format of OpenAI's models, with its task and methods."""
    return {
        "id": served.name,
        "object": "model",
        "created": served.created,
        "owned_by": "txexport",
        "task": served.model.manifest.task,
        "methods": list(served.methods),
    }


async def health(request: Request) -> Response:
    """GET /health and /healthz: 503 if a bundle can no longer answer, so that the server must start again."""
    return _status({one.name: "stopped" for one in request.app.state.served.values() if not one.alive})


async def ready(request: Request) -> Response:
    """GET /readyz: 503 also while a bundle refuses requests, because too many wait."""
    every = request.app.state.served.values()
    full = {one.name: "full" for one in every if one.full}
    return _status(full | {one.name: "stopped" for one in every if not one.alive})


def _status(unable: Mapping[str, str]) -> Response:
    """The answer to a probe; `unable` are bundles with their state."""
    if not unable:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "models": unable}, 503)


async def refuse(request: Request, error: Exception) -> Response:
    """Answer with an error."""
    return refusal_of(error, request.app.state.paths).response()


async def no_such(request: Request, error: Exception) -> Response:
    """Answer with an error of the framework, such as an unknown path."""
    assert isinstance(error, HTTPException)
    path, allowed = request.url.path, (error.headers or {}).get("Allow", "")
    hint = f"; send {' or '.join(sorted(allowed.split(', ')))}" if allowed else _near(request.app, path)
    refusal = RefusedError(f"{request.method} {path} is not served{hint}; see GET /docs", error.status_code)
    refusal.headers = dict(error.headers or {})
    return refusal.response()


def _near(app: Starlette, path: str) -> str:
    """A question with the paths that a client may have meant: that of /v1, or similar ones."""
    scope = {"type": "http", "method": "GET", "path": f"/v1{path}"}
    if any(route.matches(scope)[0] != Match.NONE for route in app.routes):
        return f"; did you mean /v1{path}?"
    paths = [route.path for route in app.routes if isinstance(route, Route) and "{" not in route.path]
    return did_you_mean(path, paths, cutoff=0.8)


async def gone(request: Request, error: Exception) -> Response:
    """Answer a client that has disconnected: the status is only for the log."""
    return Response(status_code=UNANSWERED)


class Keys:
    """Middleware that requires one of the API keys, compared in constant time."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]):
        self.app, self.keys = app, [_digest(key) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] == "http" and self.keys and scope["path"] not in OPEN and not self._has_key(scope):
            refusal = RefusedError("the key is missing or wrong; send it as Authorization: Bearer KEY", 401)
            refusal.headers["WWW-Authenticate"] = "Bearer"
            await refusal.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        header = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, key = header.partition(b" ")
        digest = _digest(key.strip())
        same = [hmac.compare_digest(digest, one) for one in self.keys]  # all keys, whichever matches
        return kind.lower() == b"bearer" and any(same)


def _digest(key: str | bytes) -> bytes:
    """The SHA-256 of a key, so that not even the key's length can be measured."""
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).digest()


class Log:
    """Middleware that counts each request after its answer, and logs a line."""

    def __init__(self, app: ASGIApp, metrics: Metrics, room: Room, paths: Mapping[Path, str]):
        self.app, self.metrics, self.room, self.paths = app, metrics, room, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, then count and log it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), UNANSWERED

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except Exception as error:  # otherwise the framework would answer it, uncounted
            if status != UNANSWERED:  # the answer has begun, so it can only be cut short
                raise
            await refusal_of(error, self.paths).response()(scope, receive, send_and_note)
        finally:
            seconds, usage = time.perf_counter() - began, scope.get("state", {}).get("usage", {})
            endpoint = getattr(scope.get("endpoint"), "__name__", "none")
            self.room.give_back(scope)
            self.metrics.count(endpoint, status, seconds, usage)
            _log(scope, status, seconds, usage)


def _log(scope: Mapping, status: int, seconds: float, usage: Mapping[str, int]) -> None:
    tokens = "".join(
        f" {name}={usage[name]}" for name in ("prompt_tokens", "completion_tokens") if name in usage
    )
    client = (scope.get("client") or ("-",))[0]
    LOG.info(line(f"{client} {scope['method']} {scope['path']} {status} {seconds * 1000:.0f} ms{tokens}"))
