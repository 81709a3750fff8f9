"""Connections with time limits for requests, and no more of them than files can be open."""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from txexport.errors import InputError, reason
from txexport.server.bodies import UPLOAD

HEAD = 10.0  # seconds for a request's headers, from the connection or from their first byte
LINGER = 5.0  # more seconds for a body that is no longer read, so that the client can read its answer
BURST = 128  # connections that the system accepts before the server does
OWN_FILES = 64  # files for bundles, logs and libraries
EMPTY = b"content-length: 0\r\nconnection: close\r\n\r\n"
LATE = b"HTTP/1.1 408 Request Timeout\r\n" + EMPTY
NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # errors of one of a host's addresses, such as ::1
FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\n" + EMPTY


class Connection(H11Protocol):
    """A connection that closes where a request's headers or body do not arrive in time.

    With more than `most` connections, the one that has waited longest for its client is closed, or the new
    one if all are being answered.
    """

    most = 512

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.awaited: tuple | None = None  # the awaited part of a request, and the request
        self.since = self.loop.time()
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer, and close a connection where there are too many."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch()
        there = [one for one in self.connections if isinstance(one, Connection) and not one.is_closing]
        if len(there) > self.most:
            idle = [one for one in there if one.is_idle and one is not self]
            last = min(idle, key=lambda one: one.since, default=self)
            last._end(FULL if last is self else b"")

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """See H11Protocol."""
        self.since = self.loop.time()
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        super().connection_lost(exc)
        self._watch()

    def shutdown(self) -> None:
        """Close the connection after its answer, or at once where its request is incomplete."""
        if not self.is_idle or self.cycle is None or self.cycle.response_complete:
            super().shutdown()
        else:
            self._end()

    @property
    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self.transport.is_closing()

    @property
    def is_idle(self) -> bool:
        """Return whether it waits for a request, or for the rest of one whose answer has not begun."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started)

    def _watch(self) -> None:
        """Restart the timer where another part of a request is awaited than before."""
        awaited = self._awaited()
        if awaited == self.awaited:
            return
        if self.timer is not None:
            self.timer.cancel()
        self.awaited, self.timer, self.since = awaited, None, self.loop.time()
        if awaited is not None:
            seconds = HEAD if awaited[0] is h11.IDLE else UPLOAD + LINGER
            self.timer = self.loop.call_later(seconds, self._late)

    def _awaited(self) -> tuple | None:
        """The awaited part of a request, and the request before it; None where nothing is awaited."""
        state = self.conn.their_state
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        if self.is_closing or (state is h11.IDLE and not begun) or state not in (h11.IDLE, h11.SEND_BODY):
            return None
        return state, self.cycle

    def _late(self) -> None:
        headers = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        self._end(LATE if headers else b"")

    def _end(self, last: bytes = b"") -> None:
        """Close the connection, after sending `last`."""
        if last and not self.is_closing:
            self.transport.write(last)
        self.transport.close() if last else self.transport.abort()


def config_of(app: Any, most: int, **options: Any) -> uvicorn.Config:
    """uvicorn's settings for at most `most` connections, fewer where fewer files can be open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:
        most = max(1, min(most, files - BURST - OWN_FILES))
    kind = type("Connection", (Connection,), {"most": most})
    return uvicorn.Config(
        app, http=kind, ws="none", lifespan="off", backlog=BURST, access_log=False, **options
    )


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Sockets of all addresses of `host` on this machine, bound to `port`. Raises InputError."""
    if not 0 <= port < 2**16:  # otherwise the system would choose another port
        raise InputError(f"port is {port}, expected a whole number below {2**16}")
    bound: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        try:
            addresses = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            refused: OSError | None = None
            for family, kind, protocol, _, address in dict.fromkeys(addresses):
                try:
                    bound.append(stack.enter_context(_bound(family, kind, protocol, address)))
                except OSError as error:
                    if error.errno not in NOT_HERE:
                        raise
                    refused = error
            if not bound and refused is not None:
                raise refused
        except (OSError, OverflowError, UnicodeError) as error:
            raise refused_place(host, port, error) from None
        yield bound


def refused_place(host: str, port: int, error: Exception) -> InputError:
    """The error for an address on which the server cannot listen, with its cause."""
    cause = reason(error) if isinstance(error, OSError) else str(error)
    return InputError(f"cannot listen on {host}:{port}: {cause}; give another --port or --host")


def _bound(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
