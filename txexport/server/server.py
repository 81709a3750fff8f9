"""The server: bundles loaded, requests answered until it is told to stop."""

import logging
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from txexport.errors import InputError
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.server.app import application
from txexport.server.connections import BURST, config_of, listening, refused_place
from txexport.server.served import Limits, Served, open_all
from txexport.support.arguments import checked

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
    max_text: int = 2**22,
    max_connections: int = 512,
    timeout: float = 600.0,
) -> None:
    """Serve bundles over HTTP, by the endpoints that OpenAI's client calls, until SIGTERM or SIGINT.

    A bundle is a folder, which gives it its name, or "NAME=FOLDER". With `api_keys`, requests need one of
    them. `engine`, `precision`, `device`, `threads` and `dtype` as `load`. `cache_tokens` is how many tokens
    the texts of a bundle that run together may come to, `max_new_tokens` how many one may ask for,
    `max_waiting` how many may wait before others are turned away, `max_body` the bytes of a request,
    `max_text` those of one without images and sounds, `max_connections` how many connections there may be,
    `timeout` the seconds of an answer. What has begun is ended before the server stops. Errors as `load`;
    InputError for two bundles of one name, for a key that is blank or that no header carries, and for a port
    that is in use.
    """
    for key in api_keys:
        if not key.strip() or key != key.strip() or not (key.isascii() and key.isprintable()):
            raise InputError("a key of api_keys is blank or has characters that no header carries")
    limits = Limits(cache_tokens, max_new_tokens, max_waiting, max_body, timeout, max_text)
    listed = [bundles] if isinstance(bundles, str | Path) else list(bundles)
    with listening(host, port) as sockets:  # before bundles are loaded, which may take minutes
        served = open_all(
            *(listed, limits), engine=engine, precision=precision, device=device, threads=threads, dtype=dtype
        )
        try:
            _run(served, limits, api_keys, host, sockets, max_connections)
        finally:
            for one in served.values():
                one.stop()


def _run(
    served: dict[str, Served],
    limits: Limits,
    keys: Sequence[str],
    host: str,
    sockets: Sequence[socket.socket],
    most: int,
) -> None:
    """Answer until the process is told to stop. Raises InputError where somebody else has the port by now."""
    port = sockets[0].getsockname()[1]
    try:
        for one in sockets:
            one.listen(BURST)
    except OSError as error:
        raise refused_place(host, port, error) from None
    log = logging.getLogger("txexport.serve")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    log.info("serving %s on http://%s:%d", ", ".join(served), f"[{host}]" if ":" in host else host, port)
    config = config_of(
        application(served, limits, keys),
        most,
        log_level="warning",
        timeout_graceful_shutdown=STOP,
        timeout_keep_alive=IDLE,
    )
    uvicorn.Server(config).run(list(sockets))
