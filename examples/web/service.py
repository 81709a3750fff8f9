"""A web service over a bundle that generates: text as it is made, or whole.

    pip install txexport starlette uvicorn
    BUNDLE=decoder uvicorn service:app

    curl -N localhost:8000/stream -d '{"prompt": "Once upon a time", "max_new_tokens": 40}'
    curl localhost:8000/generate -d '{"prompts": ["Once upon a time"], "num_beams": 4}'

A request's other values are options of generation. A model is loaded once and asked from several threads.
"""

import os
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

import txexport

MOST = 512  # new tokens that a request may ask for


def service(model: txexport.Model) -> Starlette:
    """The service of one loaded model."""

    async def stream(request: Request) -> StreamingResponse:
        """The text of one prompt, in pieces."""
        asked = await options(request)
        pieces = model.stream(asked.pop("prompt", ""), **asked)
        first = await run_in_threadpool(next, pieces, "")  # what cannot be is told before the answer begins

        def all_pieces():
            yield first
            yield from pieces

        return StreamingResponse(all_pieces(), media_type="text/plain; charset=utf-8")

    async def generate(request: Request) -> JSONResponse:
        """The texts of several prompts, in one batch."""
        asked = await options(request)
        texts = await run_in_threadpool(model.generate, asked.pop("prompts", []), **asked)
        return JSONResponse({"texts": texts})

    routes = [
        Route("/stream", stream, methods=["POST"]),
        Route("/generate", generate, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={txexport.TxexportError: refuse, ValueError: refuse})


async def options(request: Request) -> dict[str, Any]:
    """What a request asks for. Raises ValueError for what is no JSON object or asks for too much."""
    asked = await request.json()
    if not isinstance(asked, dict):
        raise ValueError("the request is no JSON object")
    if asked.get("max_new_tokens", 0) > MOST:
        raise ValueError(f"max_new_tokens is {asked['max_new_tokens']}, expected at most {MOST}")
    return asked


async def refuse(request: Request, error: Exception) -> PlainTextResponse:
    """One line that says what was wrong."""
    return PlainTextResponse(f"{error}\n", status_code=400)


if "BUNDLE" in os.environ:
    app = service(txexport.load(os.environ["BUNDLE"]))
