"""A model hub on 127.0.0.1, with the endpoints that clients use to load a model.

with serve({"org/model": folder}) as hub:
...  # hub.url as HF_ENDPOINT, HfApi(endpoint=hub.url), or transformers.js's env.remoteHost
hub.requests

Files are under /{org}/{name}/resolve/{revision}/{path}, with the headers by which huggingface_hub identifies
a version, with ranges and CORS; /api/models/... lists them. Each repository has one revision, "main", whose
commit depends on its files' contents. It is read-only and needs no login.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

CHUNK = 1 << 20
LARGE = re.compile(r"\.(onnx|onnx_data|safetensors)$")  # files that a hub stores beside git
EXPOSED = (
    "ETag, Link, Accept-Ranges, Content-Range, X-Repo-Commit, X-Linked-Size, X-Linked-ETag, X-Error-Code"
)


class Repository:
    """A folder as a repository, in the state of the first access."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder

    @cached_property
    def files(self) -> dict[str, Path]:
        """The files by their paths in the repository."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path for path in paths}

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each file."""
        result = {}
        for name, path in self.files.items():
            with path.open("rb") as file:
                result[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return result

    @cached_property
    def commit(self) -> str:
        """The commit id of the only revision, 40 digits."""
        return hashlib.sha1(json.dumps(self.digests).encode()).hexdigest()

    def entry(self, name: str) -> dict[str, Any]:
        """A file as the API lists it."""
        size, digest = self.files[name].stat().st_size, self.digests[name]
        result = {"type": "file", "oid": digest[:40], "size": size, "path": name}
        if LARGE.search(name):
            result["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
        return result

    def tree(self, folder: str, recursive: bool) -> list[dict[str, Any]] | None:
        """The contents of a folder, or None where it does not exist."""
        prefix = f"{folder}/" if folder else ""
        inside = [name for name in self.files if name.startswith(prefix)]
        if folder and not inside:
            return None
        folders = {parent for name in inside for parent in _parents(name) if parent.startswith(prefix)}
        result = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": name} for name in sorted(folders)]
        result += [self.entry(name) for name in inside]
        return [part for part in result if recursive or "/" not in part["path"].removeprefix(prefix)]

    def about(self) -> dict[str, Any]:
        """The repository's description in the API."""
        return {
            "_id": self.commit[:24],
            "id": self.name,
            "modelId": self.name,
            "sha": self.commit,
            "lastModified": "2026-01-01T00:00:00.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "private": False,
            "disabled": False,
            "gated": False,
            "downloads": 0,
            "likes": 0,
            "library_name": "transformers",
            "tags": [],
            "siblings": [{"rfilename": name} for name in self.files],
        }


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


@dataclass(frozen=True)
class Request:
    """A request and the status of its response."""

    method: str
    path: str
    status: int


@dataclass
class Hub:
    """The address, the repositories and the requests of a running hub."""

    repositories: Mapping[str, Repository]
    url: str = ""
    requests: list[Request] = field(default_factory=list)

    def fetched(self, name: str) -> list[str]:
        """The distinct files that were requested of a repository, sorted by name."""
        start = f"/{name}/resolve/"
        paths = [
            request.path.removeprefix(start) for request in self.requests if request.path.startswith(start)
        ]
        return sorted({path.split("/", 1)[1] for path in paths})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[Hub]

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def send_response(self, code: int, message: str | None = None) -> None:
        """Record the request and its status."""
        self.hub.requests.append(Request(self.command, unquote(urlsplit(self.path).path), code))
        super().send_response(code, message)

    def do_OPTIONS(self) -> None:
        """Answer a CORS preflight request."""
        self._answer(204, b"")

    def do_HEAD(self) -> None:
        """As GET, without the body."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer paths-info: descriptions of paths of a repository."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        repository, rest = self._api(urlsplit(self.path).path)
        if repository is None or not rest.startswith("paths-info/"):
            return self._refuse(404, "RepoNotFound" if repository is None else "EntryNotFound")
        asked = (
            json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode()).get("paths", [])
        )
        self._json([repository.entry(name) for name in asked if name in repository.files])

    def do_GET(self) -> None:
        """Send a file, or an answer of the API."""
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if path.startswith("/api/"):
            return self._describe(path, parse_qs(parts.query))
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        repository = self.hub.repositories.get(match[1]) if match else None
        if match is None or repository is None:
            return self._refuse(404, "RepoNotFound")
        if match[2] not in ("main", repository.commit):
            return self._refuse(404, "RevisionNotFound")
        if match[3] not in repository.files:
            return self._refuse(404, "EntryNotFound", {"X-Repo-Commit": repository.commit})
        self._file(repository, match[3])

    def _api(self, path: str) -> tuple[Repository | None, str]:
        """Answer a request of the API."""
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/?(.*)", unquote(path))
        return (self.hub.repositories.get(match[1]), match[2]) if match else (None, "")

    def _describe(self, path: str, query: Mapping[str, list[str]]) -> None:
        repository, rest = self._api(path)
        if repository is None:
            return self._refuse(401 if path.startswith("/api/whoami") else 404, "RepoNotFound")
        what, _, rest = rest.partition("/")
        revision, _, folder = rest.partition("/")
        if revision and revision not in ("main", repository.commit):
            return self._refuse(404, "RevisionNotFound")
        if what in ("", "revision"):
            return self._json(repository.about())
        if what == "refs":
            branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.commit}
            return self._json({"branches": [branch], "tags": [], "converts": []})
        tree = None
        if what == "tree":
            tree = repository.tree(folder, query.get("recursive", [""])[0].lower() in ("true", "1"))
        if tree is None:
            return self._refuse(404, "EntryNotFound")
        self._json(tree)

    def _file(self, repository: Repository, name: str) -> None:
        path, digest = repository.files[name], repository.digests[name]
        size = path.stat().st_size
        headers = {"ETag": f'"{digest}"', "X-Repo-Commit": repository.commit, "Accept-Ranges": "bytes"}
        if LARGE.search(name):
            headers |= {"X-Linked-Size": str(size), "X-Linked-ETag": f'"{digest}"'}
        start, end = 0, size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            start, end = int(asked[1]), min(int(asked[2] or size) + 1, size)
            if start >= size:
                return self._refuse(416, "", {"Content-Range": f"bytes */{size}"})
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._head(206 if asked else 200, end - start, headers)
        if self.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(start)
            while start < end:
                part = file.read(min(CHUNK, end - start))
                self.wfile.write(part)
                start += len(part)

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        message = {"X-Error-Code": code, "X-Error-Message": code} if code else {}
        self._answer(status, b"", message | dict(headers or {}))

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self._head(status, len(body), headers or {})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, size: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        everyone = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
        everyone |= {"Access-Control-Expose-Headers": EXPOSED, "Cross-Origin-Resource-Policy": "cross-origin"}
        everyone |= {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        for name, value in (everyone | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def serve(folders: Mapping[str, Path]) -> Iterator[Hub]:
    """Run a hub with a repository "organisation/model" for each folder."""
    hub = Hub({name: Repository(name, folder) for name, folder in folders.items()})
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that has gone
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()
