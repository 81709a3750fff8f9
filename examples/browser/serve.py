"""Serve the page, transformers.js and exported bundles from this machine, with Python's library alone.

npm install
txexport export ../../models/pretrained/number-translator bundles/number-translator --for web
txexport export ../../models/pretrained/python-completer bundles/python-completer --for web
python serve.py bundles
"""

import argparse
import contextlib
import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = ("index.html", "demo.js")


class Handler(SimpleHTTPRequestHandler):
    """Serves the page's files and the folders of `shared`."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
    }

    def __init__(self, *arguments, shared: dict[str, Path]):
        self.shared = shared
        super().__init__(*arguments, directory=str(HERE))

    def translate_path(self, path: str) -> str:
        """Map a URL to a file of the page or of a shared folder, and to nothing else on this machine."""
        first, _, rest = path.split("?")[0].lstrip("/").partition("/")
        if first in self.shared:
            folder = self.shared[first].resolve()
            file = (folder / rest).resolve()
            return str(file) if file.is_relative_to(folder) and file.is_file() else ""
        name = first or PAGE[0]
        return str(HERE / name) if name in PAGE and not rest else ""

    def do_GET(self) -> None:
        """Send a file or a byte range of it; transformers.js reads a file's size from the first bytes."""
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if byte_range is None or not path.is_file():
            return super().do_GET()
        with path.open("rb") as file:
            start = file.seek(int(byte_range[1]))
            part = file.read(int(byte_range[2]) + 1 - start)
        self.send_response(206 if part else 416)
        self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{path.stat().st_size}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def end_headers(self) -> None:
        """Add the headers that threads in a page require, and disable caching."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundles", type=Path, help="a folder with number-translator and python-completer")
    parser.add_argument("--modules", type=Path, default=HERE / "node_modules", help="npm's folder")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    shared = {
        "models": options.bundles,
        "library": options.modules / "@huggingface/transformers/dist",
        "runtime": options.modules / "onnxruntime-web/dist",
    }
    for name, folder in shared.items():
        if not folder.is_dir():
            parser.error(f"{name}: {folder} is not there; see the lines above, which make it")
    with ThreadingHTTPServer(("127.0.0.1", options.port), partial(Handler, shared=shared)) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
