"""An internal error of the server is 500 in one line, and affects no other request."""

import json
import time

import httpx
import pytest

from txexport.errors import EngineError
from txexport.runtime.generation import running_batch


class BrokenError(RuntimeError):
    """An internal error, with a path of the server's in it."""


def broken(*_, **__):
    raise BrokenError("/srv/model.onnx: no memory")


def refused(*_, **__):
    raise EngineError("ONNX Runtime refused: no memory at /srv/model.onnx")


OWN = [
    (broken, "the server failed at this request: BrokenError"),
    (refused, "the server failed at this request: EngineError"),
]
ASKED = {"model": "python-completer", "prompt": "def read(", "max_tokens": 9}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "place",
    [(running_batch.RunningBatch, "_admitted"), (running_batch, "_Reading"), (running_batch._Group, "join"),
     (running_batch, "_choose")],
    ids=lambda place: place[1],
)  # fmt: skip
@pytest.mark.parametrize(("fail", "message"), OWN)
def test_an_error_of_the_servers_own_is_500_and_ends_nobody_else(
    fail, message, place, stream, server, monkeypatch
):
    """All generations share one thread."""
    with monkeypatch.context() as patch:
        patch.setattr(*place, fail)
        answer = httpx.post(f"{server[0]}/v1/completions", json=ASKED | {"stream": stream})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == message
    assert answer.json()["error"]["type"] == "server_error"
    assert httpx.post(f"{server[0]}/v1/completions", json=ASKED).status_code == 200


def test_a_stream_that_breaks_ends_with_its_error(server, monkeypatch):
    choose, steps = running_batch._choose, iter(range(99))

    def later(*args):
        if next(steps) < 4:
            return choose(*args)
        time.sleep(0.3)  # which sends the queued items first
        return broken()

    monkeypatch.setattr(running_batch, "_choose", later)
    answer = httpx.post(f"{server[0]}/v1/completions", json=ASKED | {"stream": True})
    assert answer.status_code == 200
    *_, last, done, _ = answer.text.split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == OWN[0][1]
    assert done == "data: [DONE]"


@pytest.mark.parametrize(("fail", "message"), OWN)
def test_calls_that_fail_are_the_servers_too_and_are_counted(fail, message, server, monkeypatch):
    address, served = server
    monkeypatch.setattr(served["encoder"].model, "embed", fail)
    answer = httpx.post(f"{address}/v1/embeddings", json={"model": "encoder", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, message)
    counted = 'txexport_requests_total{endpoint="embeddings",status="500"}'
    assert counted in httpx.get(f"{address}/metrics").text


def test_what_a_runtime_gives_up_is_no_fault_of_the_input(server, monkeypatch):
    """As when memory runs out."""
    address, served = server

    def run(feeds):
        raise RuntimeError("Failed to allocate memory")

    for session in served["encoder"].model.bundle.sessions.values():
        monkeypatch.setattr(session.engine, "run", run)
        monkeypatch.setattr(session.engine, "bind", lambda *_: run)
    answer = httpx.post(f"{address}/v1/embeddings", json={"model": "encoder", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, OWN[1][1])
