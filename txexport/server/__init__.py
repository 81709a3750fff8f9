"""Bundles over HTTP, by the endpoints that OpenAI's client calls, with Starlette and uvicorn."""

from txexport.errors import needed_for

with needed_for("serving bundles"):
    from txexport.server.server import serve

__all__ = ["serve"]
