"""A response ends in time, and its status says why as long as nothing was sent."""

import asyncio
import base64
import dataclasses
import json
import socket
import time

import httpx
import pytest
from helpers.project import ROOT
from helpers.serving import running, slowed, texts_running, wait_until
from starlette.requests import Request

from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime.generation import running_batch
from txexport.server import bodies, streams
from txexport.server.served import Limits

ASKED = {"model": "python-completer", "prompt": "def read(", "max_tokens": 150}


@pytest.fixture
def slow(server, monkeypatch):
    """A server whose steps take 20 ms."""
    slowed(server[1], "python-completer", monkeypatch)
    return server


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_may_ask_for_less_time(slow, stream):
    address, served = slow
    answer = httpx.post(f"{address}/v1/completions", json=ASKED | {"timeout": 0.005, "stream": stream})
    assert answer.status_code == 504
    assert "took more than 0.005 seconds" in answer.json()["error"]["message"]
    wait_until(lambda: texts_running(served) == 0)


def test_a_stream_that_takes_too_long_ends_with_an_error(slow):
    address, served = slow
    answer = httpx.post(f"{address}/v1/completions", json=ASKED | {"timeout": 1.5, "stream": True})
    assert answer.status_code == 200
    *events, last, done, _ = answer.text.split("\n\n")
    assert 0 < len(events) < ASKED["max_tokens"]
    assert "took more than 1.5 seconds" in json.loads(last.removeprefix("data: "))["error"]["message"]
    assert done == "data: [DONE]"
    wait_until(lambda: texts_running(served) == 0)


@pytest.mark.parametrize("stream", [True, False])
def test_what_fails_before_the_first_token_has_its_status(server, monkeypatch, stream):
    def fail(*_):
        raise InputError("no more")

    monkeypatch.setattr(running_batch, "_choose", fail)
    answer = httpx.post(f"{server[0]}/v1/completions", json=ASKED | {"stream": stream})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "no more"


def test_a_stream_that_nobody_reads_is_let_go(monkeypatch):
    """A client that stays connected but reads nothing must not hold its rows for ever."""
    monkeypatch.setattr(streams, "LINGER", 0.05)
    left = []

    async def stuck(*_):
        await asyncio.Event().wait()

    async def objects():
        yield {}

    async def answer():
        class App:
            class state:  # noqa: N801
                limits = Limits(1, 1, 1, 1, timeout=0.05)

        scope = {"type": "http", "app": App, "asgi": {"spec_version": "2.3"}}
        events = streams.Events(objects(), lambda: left.append(True), streams.Deadline(Request(scope)), {})
        async with asyncio.timeout(10):
            await events(scope, stuck, stuck)

    asyncio.run(answer())
    assert left == [True]


def test_a_client_that_stops_reading_holds_nobody_up(folders, monkeypatch):
    """Its stream is larger than the buffers; it ends at its deadline, and others continue."""
    monkeypatch.setattr(streams, "LINGER", 0.1)
    counter = 'txexport_requests_total{endpoint="completions",status="200"}'
    many = {"n": 12, "temperature": 1, "logprobs": 20, "stream": True, "timeout": 5}  # however few its pieces
    body = json.dumps(ASKED | many).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    one = {"python-completer": folders["python-completer"]}
    with running(one, send_buffer=4096) as (address, served), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        host, port = address.removeprefix("http://").split(":")
        client.connect((host, int(port)))
        client.sendall(head.encode() + body)
        assert client.recv(12) == b"HTTP/1.1 200"
        assert httpx.post(f"{address}/v1/completions", json=ASKED | {"max_tokens": 3}).status_code == 200
        wait_until(lambda: f"{counter} 2.0" in httpx.get(f"{address}/metrics").text)
        assert texts_running(served) == 0
        read = b"".join(iter(lambda: client.recv(2**16), b""))
    assert b"data: " in read
    assert b"[DONE]" not in read


def test_a_body_that_never_ends_is_given_up(server, monkeypatch):
    monkeypatch.setattr(bodies, "UPLOAD", 0.1)
    host, port = server[0].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        assert client.recv(99).startswith(b"HTTP/1.1 408 ")


def test_an_answer_that_takes_too_long_is_ended(folders):
    limits = Limits(cache_tokens=4096, max_new_tokens=200, max_waiting=99, max_body=20_000, timeout=0.05)
    with running({"one": folders["python-completer"]}, limits) as (address, served):
        asked = {"model": "one", "prompt": "x", "max_tokens": 200}
        answer = httpx.post(f"{address}/v1/completions", json=asked)
        assert answer.status_code == 504
        assert "took more than 0.05 seconds" in answer.json()["error"]["message"]
        wait_until(lambda: texts_running(served, "one") == 0)


def test_images_that_nobody_waits_for_are_not_read(tmp_path, monkeypatch):
    """They run eight at a time; an error counts them from the request's first."""
    export(ROOT / "models/pretrained/page-finder", tmp_path / "finder", only="native")
    page = base64.b64encode((ROOT / "tests/data/pages/page.png").read_bytes()).decode()
    limits = Limits(cache_tokens=64, max_new_tokens=5, max_waiting=9, max_body=2**24, timeout=0.5)
    sizes = []

    def slow(images, **_):
        sizes.append(len(images))
        time.sleep(0.3)
        return [[] for _ in images]

    with running({"finder": tmp_path / "finder"}, limits) as (address, served):
        body = {"model": "finder", "images": [page] * 60}
        with monkeypatch.context() as patch:
            patch.setattr(served["finder"].model, "detect", slow)
            answer = httpx.post(f"{address}/v1/tasks/detect", json=body, timeout=60)
            assert answer.status_code == 504
            wait_until(lambda: served["finder"].calls.waiting == 0)
            last = httpx.post(f"{address}/v1/tasks/detect", json=body | {"images": page}, timeout=60)
        assert last.json() == []
        assert sizes[-1] == 1
        assert set(sizes[:-1]) == {8}
        assert len(sizes) < 5
    damaged = body | {"images": [page] * 9 + ["QUJD"]}
    patient = dataclasses.replace(limits, timeout=60)
    with running({"finder": tmp_path / "finder"}, patient) as (address, served):
        refused = httpx.post(f"{address}/v1/tasks/detect", json=damaged, timeout=60)
    assert "images[9]" in refused.json()["error"]["message"]
