"""`serve`: load the bundles and answer requests until SIGTERM or SIGINT."""

import logging
import re
import socket
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import uvicorn

from txexport.errors import InputError, shown
from txexport.runtime.generation.scheduler import CACHE_TOKENS
from txexport.server.app import application
from txexport.server.connections import BURST, config_of, listening, refused_place
from txexport.server.served import Limits, Served, open_all
from txexport.support.arguments import arguments_from

STOP = 60  # seconds for requests to finish when the server stops
ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^\s/?#*]+")  # as browsers send it: no path, no final slash
IDLE = 75  # seconds that an idle connection stays: longer than clients keep theirs, or they lose a request


@dataclass(frozen=True)
class ServeArguments:
    """The arguments of `serve`, which describes them."""

    bundles: str | Path | Sequence[str | Path]
    _: KW_ONLY
    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: Sequence[str] = ()
    cors: Sequence[str] = ()
    engine: str = "onnxruntime"
    precision: str = "float32"
    device: str | None = None
    threads: int | None = None
    dtype: str | None = None
    cache_tokens: int = CACHE_TOKENS
    max_new_tokens: int = 1024
    max_waiting: int = 256
    max_body: int = 2**25
    max_text: int = 2**22
    max_connections: int = 512
    timeout: float = 600.0
    verify: bool = False

    @property
    def limits(self) -> Limits:
        """The limits of requests."""
        return Limits(
            cache_tokens=self.cache_tokens,
            max_new_tokens=self.max_new_tokens,
            max_waiting=self.max_waiting,
            max_body=self.max_body,
            timeout=self.timeout,
            max_text=self.max_text,
        )

    def open_all(self) -> dict[str, Served]:
        """The bundles by name, loaded."""
        bundles = [self.bundles] if isinstance(self.bundles, str | Path) else list(self.bundles)
        return open_all(
            bundles,
            self.limits,
            self.verify,
            engine=self.engine,
            precision=self.precision,
            device=self.device,
            threads=self.threads,
            dtype=self.dtype,
        )


@arguments_from(ServeArguments)
def serve(arguments: ServeArguments) -> None:
    """Serve bundles over HTTP with OpenAI-compatible endpoints, until SIGTERM or SIGINT.

    A bundle is a folder, served under its name, or "NAME=FOLDER". With `api_keys`, a request must carry one
    of them. Pages of the origins in `cors`, such as "https://example.com", or "*" for all, may send requests
    from a browser. `engine`, `precision`, `device`, `threads` and `dtype` are as in `load`. Of each bundle,
    `cache_tokens` is the most tokens of all texts in a running batch, and `max_waiting` the most requests in
    the queue; more are refused. Of each request, `max_new_tokens` is the most tokens to generate, `max_body`
    the most bytes, `max_text` the most bytes without images and audio, and `timeout` the seconds until it
    must be answered. `max_connections` is the most open connections. Running requests are completed before
    the server stops.

    With `verify`, every bundle is first compared with the answers that it keeps, as by `verify_here`.

    Raises the errors of `load`, and with `verify` NotEqualError for a bundle that differs and the errors of
    `verify_here`; InputError for no bundle, for two bundles of one name, for a key that is blank or not valid
    in a header, for an origin in another form, for no time to answer in, and for a port in use.
    """
    if not arguments.bundles:
        raise InputError(f"bundles is {shown(arguments.bundles)}, expected at least one bundle's folder")
    for key in arguments.api_keys:
        if not key.strip() or key != key.strip() or not (key.isascii() and key.isprintable()):
            raise InputError("a key of api_keys is blank or has characters that are not allowed in a header")
    for origin in arguments.cors:
        if ORIGIN.fullmatch(origin) is None:
            raise InputError(
                f"cors has {shown(origin)}, expected an origin such as https://example.com, or *"
            )
    if not arguments.timeout > 0:  # NaN included
        raise InputError(f"timeout is {arguments.timeout:g}, expected seconds, more than 0")
    with listening(arguments.host, arguments.port) as sockets:  # before bundles load, which may take minutes
        served = arguments.open_all()
        try:
            _run(arguments, served, sockets)
        finally:
            for bundle in served.values():
                bundle.stop()


def _run(arguments: ServeArguments, served: dict[str, Served], sockets: Sequence[socket.socket]) -> None:
    """Answer requests until SIGTERM or SIGINT. Raises InputError if the port has been taken meanwhile."""
    host, port = arguments.host, sockets[0].getsockname()[1]
    try:
        for listener in sockets:
            listener.listen(BURST)
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
        application(served, arguments.limits, arguments.api_keys, arguments.cors),
        arguments.max_connections,
        log_level="warning",
        timeout_graceful_shutdown=STOP,
        timeout_keep_alive=IDLE,
    )
    uvicorn.Server(config).run(list(sockets))
