"""A faulty model hub: its list of files, headers, and bytes."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import txexport
from fuzzing import json_values, raw_bytes
from fuzzing.case import Case

NAME, COMMIT = "org/model", "1" * 40
FILES = f"/{NAME}/resolve/"
STATUSES = (200, 204, 206, 301, 302, 400, 401, 403, 404, 409, 416)  # those from 500 on are retried for long
HEADERS = ("ETag", "X-Repo-Commit", "Content-Length", "Location", "X-Error-Code", "X-Linked-Size")
VALUES = ("", "0", "-1", "../../canary", "x" * 5000, "é", "GatedRepo", str(2**70), "/", "http://[", '"a/b"')


class Hub:
    """A repository of one revision; one kind of response is faulty."""

    def __init__(self, case: Case, folder: Path):
        self.case, self.folder = case, folder
        self.wrong = case.random.choice(("list", "list", "list", "file", "status", "header", "header"))
        self.at = case.random.choice(("list", "file"))
        self.noted = False

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body for a path."""
        what = "file" if path.startswith(FILES) else "list"
        file = self.folder / path.removeprefix(FILES).partition("/")[2]
        if what == "file" and not file.is_file():
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        body = self._about() if what == "list" else file.read_bytes()
        random = self.case.random
        if self.wrong == what:
            body, note = (json_values.change if what == "list" else raw_bytes.change)(random, body)
            self._note(f"{path}: {note}")
        headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        headers |= {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        status = 200
        if self.wrong == "status" and self.at == what:
            status = random.choice(STATUSES)
            self._note(f"{path}: status {status}")
        if self.wrong == "header" and self.at == what:
            name, value = random.choice(HEADERS), random.choice(VALUES)
            headers[name] = value
            self._note(f"{path}: {name}: {value[:40]}")
        return status, headers, body

    def _about(self) -> bytes:
        files = sorted(file.name for file in self.folder.iterdir())
        about = {"_id": COMMIT, "id": NAME, "modelId": NAME, "sha": COMMIT, "private": False, "gated": False}
        about |= {"tags": [], "downloads": 0, "siblings": [{"rfilename": name} for name in files]}
        return json.dumps(about).encode()

    def _note(self, text: str) -> None:
        if not self.noted:  # requested more than once
            self.case.note(text)
        self.noted = True


@contextlib.contextmanager
def _served(hub: Hub) -> Iterator[str]:
    """The address of the hub, which opens a connection per request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = hub.answer(unquote(self.path.partition("?")[0]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that has gone
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def answers(case: Case) -> None:
    """Export a checkpoint by its name from a faulty hub."""
    hub = Hub(case, case.seeds / "families/bert")
    with _served(hub) as url:
        constants = {
            "ENDPOINT": url,
            "HUGGINGFACE_CO_URL_TEMPLATE": url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_OFFLINE": False,
            "HF_HUB_CACHE": str(case.work / "cache"),
        }
        with mock.patch.multiple("huggingface_hub.constants", **constants):
            case.attempt(txexport.export, NAME, case.work / "out", only="native")
