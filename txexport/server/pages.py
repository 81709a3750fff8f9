"""GET /openapi.json and /docs: the endpoints, for programs and for people."""

import html
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from txexport.server import chat, completions, embeddings, responses, transcriptions
from txexport.server.bodies import OWN_KEYS, Schema, expected
from txexport.server.methods import METHODS, fields_of

WIDE = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td{padding:.2em 1em .2em 0;"
)
STYLE = f"{WIDE}vertical-align:top}}code{{background:#8882;padding:.1em .3em}}"
AUDIO = "/v1/audio/"  # endpoints that read a form with a file
READ = {
    "/v1/models": "The bundles that are served.",
    "/v1/models/{model}": "One of them.",
    "/health": "Status 200 while every bundle can answer, and else 503. Also /healthz.",
    "/readyz": "As /health, and 503 while a bundle refuses requests because too many wait.",
    "/metrics": "Counters in Prometheus' text.",
}


def posts() -> dict[str, tuple[str, dict[str, Schema]]]:
    """The summary and the fields of each endpoint, by path."""
    modules = {
        "/v1/completions": (completions, completions.FIELDS),
        "/v1/chat/completions": (chat, chat.FIELDS),
        "/v1/responses": (responses, responses.FIELDS),
    }
    result = {path: (_summary(module.__doc__), fields) for path, (module, fields) in modules.items()}
    result["/v1/embeddings"] = ("Vectors of texts.", embeddings.EMBEDDINGS)
    result["/v1/rerank"] = ("The scores of documents for a query, the best first.", embeddings.RERANK)
    result["/v1/audio/transcriptions"] = (_summary(transcriptions.__doc__), transcriptions.FIELDS)
    result["/v1/audio/translations"] = ("The English text of a sound file.", transcriptions.TRANSLATIONS)
    for method in METHODS:
        result[f"/v1/tasks/{method}"] = (f"Model.{method}, as in Python.", fields_of(method))
    return result


def _summary(docstring: str | None) -> str:
    """The first line of a module's docstring after its path."""
    text = (docstring or "").splitlines()[0].partition(": ")[2]
    return text[:1].upper() + text[1:]


async def openapi(request: Request) -> Response:
    """Answer a request."""
    paths: dict[str, Any] = {
        path: {"get": {"summary": summary, "responses": {"200": {"description": "Done."}}}}
        for path, summary in READ.items()
    }
    for path, (summary, fields) in posts().items():
        kind = "multipart/form-data" if path.startswith(AUDIO) else "application/json"
        paths[path] = {
            "post": {
                "summary": summary,
                "requestBody": {"required": True, "content": {kind: {"schema": _object(path, fields)}}},
                "responses": {
                    "200": {"description": "Done."},
                    "4XX": {"description": "An error, with a message of one line."},
                },
            }
        }
    info = {"title": "txexport", "version": version("txexport")}
    return JSONResponse({"openapi": "3.1.0", "info": info, "paths": paths})


def _object(path: str, fields: Mapping[str, Schema]) -> dict[str, Any]:
    properties = {name: _standard(schema) for name, schema in fields.items()}
    wanted = [name for name, schema in fields.items() if schema.get("required")]
    if path.startswith(AUDIO):
        properties["file"] = {"type": "string", "format": "binary"}
        wanted.append("file")
    return {"type": "object", "properties": properties, "required": wanted, "additionalProperties": False}


def _standard(schema: Schema) -> Schema:
    """A schema without the keys that only this server reads."""
    return {name: value for name, value in schema.items() if name not in OWN_KEYS}


async def docs(request: Request) -> Response:
    """Answer a request."""
    parts = [
        f"<!doctype html><meta charset=utf-8><title>txexport</title><style>{STYLE}</style><h1>txexport</h1>"
    ]
    for name, one in request.app.state.served.items():
        parts.append(f"<p><code>{html.escape(name)}</code> {html.escape(one.model.manifest.task)}</p>")
    parts += [f"<h2>GET {path}</h2><p>{html.escape(summary)}</p>" for path, summary in READ.items()]
    for path, (summary, fields) in posts().items():
        parts.append(f"<h2>POST {path}</h2><p>{html.escape(summary)}</p><table>")
        for name, schema in fields.items():
            must = " (needed)" if schema.get("required") else ""
            cells = html.escape(f"{expected(schema)}{must}"), html.escape(schema.get("description", ""))
            parts.append(f"<tr><td><code>{name}</code><td>{cells[0]}<td>{cells[1]}")
        parts.append("</table>")
    return HTMLResponse("\n".join(parts))
