"""A page on 127.0.0.1 that fetches frames and returns answers."""

import queue
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

START = 120  # seconds for a browser to open the page
LONGEST = 900  # seconds for an answer; in software, a GPU takes seconds for a small graph
POLL = 20  # seconds after which the page asks again


class Page:
    """The queues between a server and its page."""

    def __init__(self, shown: Mapping[str, Path]):
        self.work: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[bytes | RuntimeError] = queue.Queue()
        self.failure: RuntimeError | None = None  # of every later call
        self.started = threading.Event()
        # Other users of this machine do not know the path.
        self.root = f"/{secrets.token_urlsafe(16)}/"
        self.shown: dict[str, Path] = {}
        self.show(shown)
        self.url = ""

    def show(self, files: Mapping[str, Path]) -> None:
        """Serve more files, by their path on the page."""
        self.shown |= {self.root + name: path for name, path in files.items()}

    def send(self, frame: bytes) -> bytes:
        """The page's answer to a frame. Raises RuntimeError if there is no page, no longer, or no answer."""
        if self.failure is None and not self.started.wait(START):
            self.failure = RuntimeError(f"the browser did not open the page within {START} seconds")
        if self.failure is None:
            self.work.put(frame)
            try:
                answer = self.answers.get(timeout=LONGEST)
            except queue.Empty:
                answer = RuntimeError(f"the page has not answered for {LONGEST} seconds")
            if not isinstance(answer, RuntimeError):
                return answer
            self.failure = answer
        raise self.failure


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, page: Page, *arguments: Any):
        self.page = page
        super().__init__(*arguments)

    def translate_path(self, path: str) -> str:
        """The path of a served file; none for others."""
        return str(self.page.shown.get(path.partition("?")[0], ""))

    def end_headers(self) -> None:
        """Add the headers that a page needs for threads, and that keep files out of the browser's cache."""
        self.send_header("Cache-Control", "no-store")  # of weights
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Serve files, work, and a stream that stays open while the page lives."""
        if self.path == self.page.root + "alive":
            self._answer(content="text/event-stream")
            self.wfile.flush()
            self.page.started.set()
            self.rfile.read(1)
            self.page.answers.put(RuntimeError("the page or its browser has crashed"))
        elif self.path == self.page.root + "work":
            try:
                frame = self.page.work.get(timeout=POLL)
            except queue.Empty:
                frame = b""
            self._answer(frame)
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """Receive answers, or why the page could not start."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == self.page.root + "answer":
            self.page.answers.put(body)
        elif self.path == self.page.root + "failed":
            self.page.answers.put(RuntimeError(body.decode(errors="replace")))
        self._answer(b"")

    def _answer(self, body: bytes | None = None, content: str = "application/octet-stream") -> None:
        self.send_response(200)
        self.send_header("Content-Type", content)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body or b"")


@contextmanager
def serve(shown: Mapping[str, Path]) -> Iterator[Page]:
    """A page at its `url`; `shown` are files by their path there, the page itself by an empty one."""
    page = Page(shown)

    def handle(*arguments: Any) -> None:
        _Handler(page, *arguments)

    with ThreadingHTTPServer(("127.0.0.1", 0), handle) as server:  # type: ignore[arg-type]
        page.url = f"http://127.0.0.1:{server.server_port}{page.root}"
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a closed browser
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield page
        finally:
            server.shutdown()
