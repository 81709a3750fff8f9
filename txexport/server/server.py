"""The server: bundles loaded, requests answered until it is told to stop."""

import logging
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from txexport.arguments import checked
from txexport.errors import InputError
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.server.app import application
from txexport.server.served import Limits, open_all

STOP = 60  # seconds that requests have to end when the server is told to stop
IDLE = 75  # seconds that an idle connection stays: longer than clients keep theirs, or they lose a request


@checked
def serve(
    bundles: str | Path | Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    api_keys: Sequence[str] = (),
    engine: str = "onnxruntime",
    precision: str = "float32",
    device: str | None = None,
    threads: int | None = None,
    dtype: str | None = None,
    cache_tokens: int = CACHE_TOKENS,
    max_new_tokens: int = 1024,
    max_waiting: int = 256,
    max_body: int = 2**25,
    timeout: float = 600.0,
) -> None:
    """Serve bundles over HTTP, by the endpoints that OpenAI's client calls, until SIGTERM or SIGINT.

    A bundle is a folder, which gives it its name, or "NAME=FOLDER". With `api_keys`, requests need one of
    them. `engine`, `precision`, `device`, `threads` and `dtype` as `load`. `cache_tokens` is how many tokens
    the texts of a bundle that run together may come to, `max_new_tokens` how many one may ask for,
    `max_waiting` how many may wait before others are turned away, `max_body` the bytes of a request,
    `timeout` the seconds of an answer. What has begun is ended before the server stops. Errors as `load`;
    InputError for two bundles of one name, and for a key that is blank or that no header carries.
    """
    for key in api_keys:
        if not key.strip() or key != key.strip() or not (key.isascii() and key.isprintable()):
            raise InputError("a key of api_keys is blank or has characters that no header carries")
    limits = Limits(cache_tokens, max_new_tokens, max_waiting, max_body, timeout)
    listed = [bundles] if isinstance(bundles, str | Path) else list(bundles)
    served = open_all(
        *(listed, limits), engine=engine, precision=precision, device=device, threads=threads, dtype=dtype
    )
    log = logging.getLogger("txexport.serve")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    log.info("serving %s on http://%s:%d", ", ".join(served), host, port)
    config = uvicorn.Config(
        application(served, limits, api_keys),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=STOP,
        timeout_keep_alive=IDLE,
    )
    server = uvicorn.Server(config)
    try:
        server.run()
    finally:
        for one in served.values():
            one.stop()
