"""A bundle server in this process, for tests."""

import contextlib
import socket
import threading
import time

import uvicorn

from txexport.server.app import application
from txexport.server.connections import config_of
from txexport.server.served import Limits, open_all

LIMITS = Limits(cache_tokens=2048, max_new_tokens=200, max_waiting=32, max_body=20_000, timeout=60)


@contextlib.contextmanager
def running(folders, limits=LIMITS, keys=(), send_buffer=None, most=512, origins=()):
    """Run a bundle server on a free port; return its address and the server.

    `most` is the maximum number of connections; `send_buffer` is the number of bytes of a response that the
    system buffers for a client that does not read.
    """
    served = open_all([f"{name}={folder}" for name, folder in folders.items()], limits, device="cpu",
                      threads=1, dtype=None)  # fmt: skip
    with socket.socket() as sock:
        if send_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            config_of(application(served, limits, keys, origins), most, log_level="error")
        )
        thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}", served
        finally:
            server.should_exit = True
            thread.join()
            for one in served.values():
                one.stop()


def slowed(served, name, monkeypatch):
    """Let each step of a bundle take 20 ms more: what is ready at once is sent as one piece."""
    batch = served[name].generation.batch
    step = batch.step
    monkeypatch.setattr(batch, "step", lambda: time.sleep(0.02) or step())


def texts_running(served, name="python-completer"):
    return served[name].generation.running + served[name].generation.waiting


def wait_until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
