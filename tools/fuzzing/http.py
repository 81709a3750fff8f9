"""Requests to the example service."""

import json
import sys
from functools import cache
from pathlib import Path

import txexport
from fuzzing import arguments, json_values, raw_bytes
from fuzzing.case import Case, FaultError

WEB = Path(txexport.__file__).parents[1] / "examples/web"
BODIES = {
    "/stream": {"prompt": "the cat", "max_new_tokens": 3},
    "/generate": {"prompts": ["the cat", "a dog"], "max_new_tokens": 3, "num_beams": 2},
}
HEADERS: tuple[dict[str, str], ...] = (
    *({}, {}, {}, {"content-type": "text/plain"}, {"content-type": "application/json; charset=utf-16"}),
    *({"content-encoding": "gzip"}, {"content-length": "5"}, {"transfer-encoding": "chunked"}),
)


@cache
def _client(model):
    sys.path.insert(0, str(WEB))
    from service import service
    from starlette.testclient import TestClient

    return TestClient(service(model))


def body(case: Case) -> None:
    """An invalid body; the status must reject it, or report that the service is busy."""
    path = case.random.choice(list(BODIES))
    headers = case.random.choice(HEADERS)
    if case.random.random() < 0.5:
        names = case.random.sample(arguments.OPTIONS, case.random.choice((1, 1, 2)))
        fields = {name: json_values.hostile(case.random) for name in names}
        note, data = str(fields)[:200], json_values.dumps(BODIES[path] | fields).encode()
    else:
        how = case.random.choice((json_values.change, json_values.change, raw_bytes.change))
        data, note = how(case.random, json.dumps(BODIES[path]).encode())
    case.note(f"POST {path} {headers}: {note}")
    status = _client(case.model("decoder")).post(path, content=data, headers=headers).status_code
    if not (200 <= status < 500 or status == 503):
        raise FaultError(f"status {status}")
