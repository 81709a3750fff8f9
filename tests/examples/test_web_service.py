"""The example service returns results, refuses invalid requests in a line, and stops on disconnection."""

import asyncio
import json
import sys
import threading
from types import SimpleNamespace

import pytest
from helpers.project import ROOT
from starlette.testclient import TestClient

from txexport.runtime import load

sys.path.insert(0, str(ROOT / "examples" / "web"))
import request_body
import service as web


@pytest.fixture
def model(bundle_of):
    return load(bundle_of("gpt2", "static"), device="cpu", threads=1)


@pytest.fixture
def client(model):
    with TestClient(web.service(model), raise_server_exceptions=False) as client:
        yield client


class Steps:
    """A counter of the steps of all generations; step number `held` blocks until `go`."""

    def __init__(self) -> None:
        self.taken, self.held, self.go = 0, 0, threading.Event()

    def before(self) -> None:
        """Called by each step as it begins."""
        self.taken += 1
        if self.taken == self.held:
            assert self.go.wait(20)

    async def holds(self) -> None:
        """Return once a step is blocked, or past."""
        while not 0 < self.held <= self.taken:
            await asyncio.sleep(0.001)


@pytest.fixture
def steps(monkeypatch):
    """The counter of the service. Its clock is stopped, so that only a test can make time run out."""
    steps, kept = Steps(), web.Job.step

    def step(self, tokens, scores):
        steps.before()
        return kept(self, tokens, scores)

    monkeypatch.setattr(web.Job, "step", step)
    monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=lambda: 0.0))
    return steps


def test_service_streams_and_answers(client, model):
    asked = {"prompt": "the cat", "max_new_tokens": 12}
    with client.stream("POST", "/stream", json=asked) as response:
        pieces = list(response.iter_text())
    text = model.generate("the cat", max_new_tokens=12)
    assert response.status_code == 200
    assert "".join(pieces) == text
    asked = {"prompts": ["the cat", "a dog"], "max_new_tokens": 12, "num_beams": 2}
    expected = model.generate(["the cat", "a dog"], max_new_tokens=12, num_beams=2)
    assert client.post("/generate", json=asked).json() == {"texts": expected}
    options = {"do_sample": True, "seed": 3, "temperature": 2, "top_k": 9, "top_p": 0.9}
    expected = model.generate(["the cat"], max_new_tokens=20, **options)  # 20, whatever the checkpoint says
    assert client.post("/generate", json={"prompts": ["the cat"]} | options).json() == {"texts": expected}


BODIES = [
    (b"", "is no JSON"),
    (b"{", "is no JSON"),
    (b'{"prompt": "a"} x', "is no JSON"),
    (b'{"prompt": "\xff\xfe"}', "'utf-8' codec"),
    ('{"prompt": "a"}'.encode("utf-16"), "'utf-8' codec"),
    (b"[" * 30_000, "nested too deeply"),
    (b'{"prompt":' * 5_000, "nested too deeply"),
    (b"[1]", "no JSON object but a list"),
    (b'"a"', "no JSON object but a str"),
    (b"null", "no JSON object but a NoneType"),
    (b"7", "no JSON object but a int"),
    (b'{"prompt": "a", "temperature": NaN}', "NaN is no number"),
    (b'{"prompt": "a", "temperature": -Infinity}', "-Infinity is no number"),
    (b'{"prompt": "a", "temperature": 1e999}', "temperature is inf, expected float from 0.01 to 100"),
    (b'{"prompt": "a", "seed": ' + b"9" * 5_000 + b"}", "is no JSON"),
    (b'{"prompt": "\\ud800"}', "half a character"),
]
ASKED = [
    ({}, "a text is NoneType, expected str"),
    ({"prompt": 3}, "a text is int, expected str"),
    ({"prompt": ["a"]}, "a text is list, expected str"),
    ({"prompt": {"a": 1}}, "a text is dict, expected str"),
    ({"prompt": "a", "num_beam": 2}, "no option 'num_beam'; expected some of max_new_tokens,"),
    ({"prompt": "a", "max_length": 10**6}, "no option 'max_length'"),
    ({"prompt": "a", "logits_processor": 1}, "no option 'logits_processor'"),
    ({"prompt": "a", "batch_tokens": 1}, "no option 'batch_tokens'"),
    ({"prompt": "a", "log_probs": True}, "no option 'log_probs'"),
    ({"prompt": "a", "\u001b[2J\n": True}, "no option '\\x1b[2J\\n'"),
    ({"prompt": "a", "max_new_tokens": 513}, "max_new_tokens is 513, expected int from 1 to 512"),
    ({"prompt": "a", "max_new_tokens": 0}, "max_new_tokens is 0"),
    ({"prompt": "a", "max_new_tokens": 10**400}, "max_new_tokens is 1000"),
    ({"prompt": "a", "max_new_tokens": "9"}, "max_new_tokens is '9'"),
    ({"prompt": "a", "max_new_tokens": 9.0}, "max_new_tokens is 9.0"),
    ({"prompt": "a", "max_new_tokens": True}, "max_new_tokens is True"),
    ({"prompt": "a", "max_new_tokens": None}, "max_new_tokens is None"),
    ({"prompt": "a", "max_new_tokens": [9]}, "max_new_tokens is [9]"),
    ({"prompt": "a", "num_beams": 9}, "num_beams is 9, expected int from 1 to 8"),
    ({"prompt": "a", "do_sample": 1}, "do_sample is 1, expected true or false"),
    ({"prompt": "a", "temperature": {}}, "temperature is {}"),
    ({"prompt": "a", "top_p": 10**400}, "top_p is 1000"),
    ({"prompt": "a " * 200}, "tokens"),
    ({"prompts": []}, "prompts is [], expected a list of 1 to 16 texts"),
    ({"prompts": "a"}, "prompts is 'a', expected a list"),
    ({"prompts": ["a"] * 17}, "expected a list of 1 to 16 texts"),
    ({"prompts": [3]}, "a text is int, expected str"),
    ({"prompts": ["a", None]}, "a text is NoneType, expected str"),
    ({"prompts": ["a"], "prompt": "a"}, "no option 'prompt'"),
]


@pytest.mark.parametrize(
    ("body", "said"), [*BODIES, *((json.dumps(asked).encode(), said) for asked, said in ASKED)]
)
def test_service_refuses_in_one_line(body, said, client):
    path = "/generate" if b'"prompts"' in body else "/stream"
    response = client.post(path, content=body)
    assert (response.status_code, said in response.text) == (400, True), response.text
    assert response.text.count("\n") == 1
    assert len(response.text) < 500


def test_large_bodies_are_not_read_to_their_end(client):
    sent = []

    def endless():
        for _ in range(1000):
            sent.append(0)
            yield b" " * 10_000

    for path in ("/stream", "/generate"):
        assert client.post(path, content=b" " * request_body.BYTES).status_code == 400
        response = client.post(path, content=b" " * (request_body.BYTES + 1))
        assert (response.status_code, response.text) == (413, "the body has more than 65536 bytes\n")
    assert client.post("/stream", content=endless()).status_code == 413


THIRTY = {"max_new_tokens": 30, "min_new_tokens": 30}
ONE, TWO = {"prompt": "the cat"} | THIRTY, {"prompts": ["the cat", "a dog"]} | THIRTY


async def talk(app, asked: dict | None, leaves: Steps | None = None, reads: bool = True) -> list[dict]:
    """The service's response; a client `leaves` while a step is blocked, or `reads` nothing."""
    messages, done, sent = [], asyncio.Event(), []
    if asked is not None:  # else the body never arrives
        messages.append({"type": "http.request", "body": json.dumps(asked).encode(), "more_body": False})

    async def receive():
        if messages:
            return messages.pop()
        if leaves is None:
            await done.wait()
        else:
            await leaves.holds()
            asyncio.get_running_loop().call_soon(leaves.go.set)  # when the service knows it
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if not reads:
            await done.wait()

    path = "/generate" if "prompts" in (asked or {}) else "/stream"
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app(scope | {"asgi": {"spec_version": "2.3"}}, receive, send)
    done.set()
    return sent


def answered(app, asked: dict | None, leaves: Steps | None = None) -> list[dict]:
    """As `talk`, without another client."""
    return asyncio.run(talk(app, asked, leaves))


@pytest.mark.parametrize("held", [1, 12])
@pytest.mark.parametrize("beams", [{}, {"num_beams": 2}], ids=["", "beams"])
@pytest.mark.parametrize("asked", [ONE, TWO], ids=["stream", "generate"])
def test_client_that_leaves_stops_its_generation(asked, beams, held, model, steps):
    """At any time: even before the first piece, which beam search sends at its end."""
    app = web.service(model)
    assert answered(app, asked | beams)[0]["status"] == 200
    assert steps.taken == 30
    steps.taken, steps.held = 0, held
    sent = answered(app, asked | beams, leaves=steps)
    assert steps.taken == held
    begun = sent[0]["status"] == 200  # else nobody would read the result
    assert begun == ("prompt" in asked and not beams and held > 1)


@pytest.mark.parametrize("asked", [ONE, ONE | {"num_beams": 2}, TWO])
def test_client_that_leaves_makes_room(asked, model, steps, monkeypatch):
    monkeypatch.setattr(web, "RUNNING", 1)
    app = web.service(model)
    for held in (1, 12):
        steps.taken, steps.held = 0, held
        steps.go.clear()
        answered(app, asked, leaves=steps)
        assert steps.taken == held
    steps.held = 0
    assert answered(app, TWO)[0]["status"] == 200


@pytest.mark.parametrize("last", [1, 12])
@pytest.mark.parametrize("asked", [ONE, TWO], ids=["stream", "generate"])
def test_time_is_limited(asked, last, model, steps, monkeypatch):
    """It ends at the step `last`; a stream that has begun by then is aborted."""

    def monotonic() -> float:
        return 0.0 if steps.taken < last else web.SECONDS + 1

    monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=monotonic))
    app = web.service(model)
    if "prompt" in asked and last > 1:
        with pytest.raises(RuntimeError, match="response already started"):
            answered(app, asked)
    else:
        start, body = answered(app, asked)
        assert (start["status"], body["body"]) == (503, b"the answer took more than 60 seconds\n")
    assert steps.taken == last


def test_client_that_does_not_read_is_given_up(model, steps, monkeypatch):
    monkeypatch.setattr(web, "RUNNING", 1)
    monkeypatch.setattr(web, "SECONDS", 0.05)
    app = web.service(model)
    with pytest.raises(TimeoutError):
        asyncio.run(talk(app, ONE, reads=False))
    assert steps.taken < 30
    assert answered(app, TWO)[0]["status"] == 200


def test_slow_body_is_given_up(model, monkeypatch):
    monkeypatch.setattr(request_body, "UPLOAD", 0.05)
    start, *_ = answered(web.service(model), None)
    assert start["status"] == 408


def test_who_cannot_wait_is_told_when_to_come_back(model, steps, monkeypatch):
    """The first runs, the second waits, and the third is refused."""
    monkeypatch.setattr(web, "RUNNING", 1)
    monkeypatch.setattr(web, "WAITING", 1)
    steps.held = 1

    async def talks() -> list[list[dict]]:
        app = web.service(model)
        answers = asyncio.as_completed([talk(app, TWO) for _ in range(4)])
        turned = [await next(answers) for _ in range(2)]
        steps.go.set()
        return [*turned, *[await answer for answer in answers]]

    answers = asyncio.run(talks())
    assert [start["status"] for start, _ in answers] == [503, 503, 200, 200]
    assert all((b"retry-after", b"5") in start["headers"] for start, _ in answers[:2])
    assert {body["body"] for _, body in answers[:2]} == {b"too many requests are waiting\n"}
    assert steps.taken == 60


def test_who_waits_too_long_is_told_when_to_come_back(model, steps, monkeypatch):
    monkeypatch.setattr(web, "RUNNING", 1)
    monkeypatch.setattr(web, "SECONDS", 0.05)
    steps.held = 1

    async def talks() -> list[list[dict]]:
        app = web.service(model)
        first = asyncio.create_task(talk(app, TWO))
        await steps.holds()
        second = await talk(app, TWO)
        steps.go.set()
        return [second, await first]

    (start, body), (other, _) = asyncio.run(talks())
    assert (start["status"], other["status"]) == (503, 200)
    assert (b"retry-after", b"30") in start["headers"]
    assert body["body"] == b"the requests before this one take too long\n"
    assert steps.taken == 30
