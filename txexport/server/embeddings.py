"""POST /v1/embeddings, and /v1/rerank: what encoders make of texts."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from txexport.server.bodies import Schema, read_json
from txexport.server.fields import FLAG, MODEL, NO_EFFECT, TEXT
from txexport.server.refusals import RefusedError, too_late
from txexport.server.served import Limits, Served, find
from txexport.server.streams import while_there

INPUTS = 2048  # of a request, as OpenAI has it
IDS: Schema = {"type": "array", "items": {"type": "integer"}}
EMBEDDINGS: dict[str, Schema] = {
    **MODEL,
    "input": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": INPUTS},
            IDS,
            {"type": "array", "items": IDS},
        ],
        "required": True,
        "description": "A text or several; token ids are refused, since they may be of another vocabulary.",
    },
    "encoding_format": {"enum": ["float", "base64"]},
    "dimensions": {
        "type": "integer",
        "minimum": 1,
        "description": "The first numbers of a vector, of length 1.",
    },
    "prompt_name": {
        "type": "string",
        "description": "What stands before each text, by the checkpoint's name.",
    },
    "truncate": {"type": "boolean", "description": "Cut texts that are too long."},
    **NO_EFFECT,
}
RERANK: dict[str, Schema] = {
    **MODEL,
    "query": TEXT | {"required": True},
    "documents": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": INPUTS, "required": True},
    "top_n": {"type": "integer", "minimum": 1},
    "return_documents": FLAG,
    "truncate": FLAG,
}


async def embeddings(request: Request) -> Response:
    """Answer a request."""
    limits: Limits = request.app.state.limits
    asked = await read_json(request, EMBEDDINGS, limits.max_body)
    served = find(request.app.state.served, asked["model"])
    needs(served, "embed")
    texts = _texts(asked["input"])
    options: dict[str, Any] = {name: asked[name] for name in ("prompt_name", "truncate") if name in asked}
    if "dimensions" in asked:
        options |= {"truncate_dim": asked["dimensions"], "normalize": True}
    key = ("embed", *sorted(options.items()))
    vectors = await answered(
        request, served.calls.call(lambda inputs: list(served.model.embed(inputs, **options)), texts, key)
    )
    data = []
    for number, vector in enumerate(vectors):
        plain = asked.get("encoding_format", "float") == "float"
        value = vector.tolist() if plain else base64.b64encode(vector.astype("<f4").tobytes()).decode()
        data.append({"object": "embedding", "index": number, "embedding": value})
    tokens = await run_in_threadpool(count_tokens, served, texts)
    request.state.usage = {"prompt_tokens": tokens}
    counted = {"prompt_tokens": tokens, "total_tokens": tokens}
    return JSONResponse({"object": "list", "data": data, "model": served.name, "usage": counted})


def _texts(given: Any) -> list[str]:
    """The texts of an input. Raises RefusedError for token ids."""
    texts = [given] if isinstance(given, str) else given
    if not texts or not isinstance(texts[0], str):
        raise RefusedError(
            "input is token ids, and those of another vocabulary would make wrong vectors; send texts "
            "(LangChain's OpenAIEmbeddings: check_embedding_ctx_length=False)",
            param="input",
        )
    return texts


def count_tokens(served: Served, texts: list[str]) -> int:
    """How many tokens texts are."""
    return sum(len(encoding) for encoding in served.model.bundle.files.text.encode(texts))


async def rerank(request: Request) -> Response:
    """Answer a request in the shape that Cohere's and Jina's clients read."""
    limits: Limits = request.app.state.limits
    asked = await read_json(request, RERANK, limits.max_body)
    served = find(request.app.state.served, asked["model"])
    needs(served, "rerank")

    def ranked(queries: list[str]) -> list:
        return served.model.rerank(
            queries, asked["documents"], top_k=asked.get("top_n"), truncate=asked.get("truncate", False)
        )

    [best] = await answered(request, served.calls.call(ranked, [asked["query"]]))
    return JSONResponse({"model": served.name, "results": [_result(one, asked) for one in best]})


def _result(ranked: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    place = ranked["corpus_id"]
    result: dict[str, Any] = {"index": place, "relevance_score": float(ranked["score"])}
    if asked.get("return_documents"):
        result["document"] = {"text": asked["documents"][place]}
    return result


def needs(served: Served, method: str) -> None:
    """Raise RefusedError where a bundle is for something else."""
    if method not in served.methods:
        raise RefusedError(
            f"{served.name} does not {method}; it is for {', '.join(served.methods)}", param="model"
        )


async def answered(request: Request, call: Any) -> Any:
    """What a call gives. Raises RefusedError where it takes too long, ClientDisconnect where nobody waits."""
    limits: Limits = request.app.state.limits
    try:
        async with asyncio.timeout(limits.timeout):
            return await while_there(request, call)
    except TimeoutError:
        raise too_late(limits.timeout) from None
