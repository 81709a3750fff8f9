"""POST /v1/embeddings and /v1/rerank: vectors and scores of text encoders."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from txexport.errors import InputError
from txexport.runtime.batches import BATCH_TOKENS
from txexport.server.bodies import Schema, read_json
from txexport.server.fields import DEADLINE, FLAG, MODEL, NO_EFFECT, TEXT
from txexport.server.refusals import RefusedError, naming
from txexport.server.served import Limits, Served, find
from txexport.server.streams import Deadline, answered
from txexport.server.texts import check_together, groups

INPUTS = 2048  # of a request, as OpenAI has it
SIZE = "truncate_dim"  # dimensions in Python
CPU_BATCH_TOKENS = 256  # for texts of mixed lengths: padding costs more than another run
IDS: Schema = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
EMBEDDINGS: dict[str, Schema] = {
    **MODEL,
    "input": {
        "anyOf": [
            TEXT,
            {"type": "array", "items": TEXT, "minItems": 1, "maxItems": INPUTS},
            IDS,
            {"type": "array", "items": IDS, "minItems": 1},
        ],
        "required": True,
        "expected": f"a text or a list of 1 to {INPUTS} texts",
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
        "description": "The checkpoint's prompt to put before each text, by its name.",
    },
    "truncate": {"type": "boolean", "description": "Cut texts that are too long."},
    **NO_EFFECT,
    **DEADLINE,
}
RERANK: dict[str, Schema] = {
    **MODEL,
    "query": TEXT | {"required": True},
    "documents": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": INPUTS, "required": True},
    "top_n": {"type": "integer", "minimum": 1},
    "return_documents": FLAG,
    "truncate": FLAG,
    **DEADLINE,
}


async def embeddings(request: Request) -> Response:
    """Answer a request."""
    limits: Limits = request.app.state.limits
    body = await read_json(request, EMBEDDINGS, limits.most_text)
    served = find(request.app.state.served, body["model"])
    needs(served, "embed")
    texts = _texts(body["input"])
    options: dict[str, Any] = {name: body[name] for name in ("prompt_name", "truncate") if name in body}
    if "dimensions" in body:
        options |= {SIZE: body["dimensions"], "normalize": True}
    key = ("embed", *sorted(options.items()))
    call = served.calls.call(lambda inputs: _embedded(served, inputs, options), texts, key)
    with naming(body, "input"):
        results = await answered(request, call, Deadline(request, body))
    data = []
    for number, (vector, _) in enumerate(results):
        plain = body.get("encoding_format", "float") == "float"
        value = vector.tolist() if plain else base64.b64encode(vector.astype("<f4").tobytes()).decode()
        data.append({"object": "embedding", "index": number, "embedding": value})
    tokens = sum(count for _, count in results)
    request.state.usage = {"prompt_tokens": tokens}
    counted = {"prompt_tokens": tokens, "total_tokens": tokens}
    return JSONResponse({"object": "list", "data": data, "model": served.name, "usage": counted})


def _texts(value: Any) -> list[str]:
    """The texts of an input. Raises RefusedError for token ids and for an empty text."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts[0], str):
        raise RefusedError(
            "input is token ids, and those of another vocabulary would make wrong vectors; send texts "
            "(LangChain's OpenAIEmbeddings: check_embedding_ctx_length=False)",
            param="input",
        )
    if "" in texts:
        name = "input" if texts is not value else f"input[{texts.index('')}]"
        raise RefusedError(f"{name} is empty, expected a text", param="input")
    return texts


def _embedded(
    served: Served, texts: list[str], options: Mapping[str, Any]
) -> Iterator[tuple[np.ndarray, int]]:
    """The vector of each text, and its number of tokens."""
    bundle = served.model.bundle
    on_cpu = all(session.memory == "cpu" for session in bundle.sessions.values())
    budget = CPU_BATCH_TOKENS if on_cpu else BATCH_TOKENS
    for some in groups(texts):
        try:
            vectors = served.model.embed(some, batch_tokens=budget, **options)
        except InputError as error:
            message = str(error)
            if not message.startswith(SIZE):
                raise
            raise RefusedError(message.replace(SIZE, "dimensions", 1), param="dimensions") from None
        counts = [len(encoding) for encoding in bundle.files.text.encode(some)]
        yield from zip(vectors, counts, strict=True)


async def rerank(request: Request) -> Response:
    """Answer a request in the shape that Cohere's and Jina's clients read."""
    limits: Limits = request.app.state.limits
    body = await read_json(request, RERANK, limits.most_text)
    served = find(request.app.state.served, body["model"])
    needs(served, "rerank")
    check_together(body["query"], body["documents"], most=limits.most_text)

    def ranked(queries: list[str]) -> list:
        return served.model.rerank(
            queries, body["documents"], top_k=body.get("top_n"), truncate=body.get("truncate", False)
        )

    call = served.calls.call(ranked, [body["query"]])
    with naming(body):
        [best] = await answered(request, call, Deadline(request, body))
    return JSONResponse({"model": served.name, "results": [_result(one, body) for one in best]})


def _result(ranked: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    place = ranked["corpus_id"]
    result: dict[str, Any] = {"index": place, "relevance_score": float(ranked["score"])}
    if body.get("return_documents"):
        result["document"] = {"text": body["documents"][place]}
    return result


def needs(served: Served, method: str) -> None:
    """Raise RefusedError where a bundle does not have a method."""
    if method not in served.methods:
        raise RefusedError(
            f"{served.name} does not {method}; it is for {', '.join(served.methods)}", param="model"
        )
