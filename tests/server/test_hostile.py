"""Clients that send too much, too slowly or too often: others get responses, and memory does not grow."""

import contextlib
import dataclasses
import json
import socket
import threading
import time

import httpx
import pytest
from helpers.serving import LIMITS, running, wait_until

from txexport.server import bodies, connections

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
WIDE = dataclasses.replace(LIMITS, max_body=2**25)
QUESTION = [{"role": "user", "content": "How do the French say eighty-one?"}]


def connected(address, data=b""):
    host, port = address.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=20)
    client.sendall(data)
    return client


def rest(client):
    """The server's data until it closes the connection."""
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: client.recv(2**16), b""))
    return b""


@pytest.mark.parametrize(
    ("begun", "told"),
    [(b"", b""), (b"GET /health HTT", b"HTTP/1.1 408 "), (HEALTH[:-2], b"HTTP/1.1 408 "),
     (HEALTH + b"GET", b"HTTP/1.1 408 "), (POST + b"x: ", b"HTTP/1.1 408 ")],
)  # fmt: skip
def test_headers_that_never_end_are_given_up(server, monkeypatch, begun, told):
    monkeypatch.setattr(connections, "HEAD", 0.2)
    with connected(server[0], begun) as client:
        answer = rest(client)
    if begun.startswith(HEALTH):
        assert answer.startswith(b"HTTP/1.1 200 ")
        answer = answer[answer.index(b"}") + 1 :]
    assert answer.startswith(told)
    assert bool(answer) == bool(told)


def test_headers_in_drips_are_given_up(server, monkeypatch):
    """The timeout is for all headers, not for each byte."""
    monkeypatch.setattr(connections, "HEAD", 0.5)
    began = time.monotonic()
    with connected(server[0], b"GET /health HTTP/1.1\r\n") as client, contextlib.suppress(OSError):
        while time.monotonic() < began + 10:
            client.sendall(b"x: y\r\n")
            time.sleep(0.05)
    assert time.monotonic() < began + 5


@pytest.mark.parametrize("path", ["/health", "/v1/completions", "/v1/nothing"])
def test_bodies_that_never_end_are_given_up_whoever_reads_them(server, monkeypatch, path):
    """Also where an answer needs no body."""
    monkeypatch.setattr(bodies, "UPLOAD", 0.3)
    monkeypatch.setattr(connections, "UPLOAD", 0.3)
    monkeypatch.setattr(connections, "LINGER", 0.3)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    began = time.monotonic()
    with connected(server[0], head.encode()) as client, contextlib.suppress(OSError):
        while time.monotonic() < began + 10:
            client.sendall(b"1\r\n \r\n")
            time.sleep(0.05)
    assert time.monotonic() < began + 5


def test_idle_connections_stay_and_are_used_again(server, monkeypatch):
    monkeypatch.setattr(connections, "HEAD", 0.2)
    with httpx.Client(base_url=server[0]) as client:
        assert client.get("/health").status_code == 200
        [own] = client._transport._pool.connections
        time.sleep(0.6)
        assert client.get("/health").status_code == 200
        assert client._transport._pool.connections == [own]


HOLDS = {"none": b"", "head": b"GET / HTT", "idle": HEALTH, "body": POST + b"Content-Length: 9\r\n\r\n{"}


@pytest.mark.parametrize("begun", HOLDS.values(), ids=HOLDS)
def test_a_new_connection_finds_room_whoever_holds_the_others(folders, begun):
    with running({"encoder": folders["encoder"]}, most=10) as (address, _), contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(address, begun)) for _ in range(30)]
        for _ in range(20):
            assert httpx.get(f"{address}/health", timeout=5).status_code == 200
        for client in held[:15]:
            client.settimeout(5)
            rest(client)  # closed, long before its time


def test_who_is_being_answered_keeps_the_connection(folders, monkeypatch):
    """A new one is refused while all are in use."""
    one = {"python-completer": folders["python-completer"]}
    with running(one, most=3) as (address, served), contextlib.ExitStack() as stack:
        batch = served["python-completer"].generation.batch
        step, go = batch.step, threading.Event()
        monkeypatch.setattr(batch, "step", lambda: go.wait(20) and step())
        asked = json.dumps({"model": "python-completer", "prompt": "def read(", "max_tokens": 3}).encode()
        head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(asked)
        clients = [stack.enter_context(connected(address, head + asked)) for _ in range(3)]
        wait_until(lambda: served["python-completer"].generation.waiting + served["python-completer"]
                   .generation.running >= 1)  # fmt: skip
        time.sleep(0.3)
        with connected(address, HEALTH) as more:
            assert rest(more).startswith((b"HTTP/1.1 503 ", b""))
        go.set()
        assert all(rest(client).startswith(b"HTTP/1.1 200 ") for client in clients)
        assert httpx.get(f"{address}/health").status_code == 200


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024


LARGE = {
    "a prompt": ("/completions", {"model": "python-completer", "prompt": "a b " * 1_000_000}, 400),
    "prompts": ("/completions", {"model": "python-completer", "prompt": ["a b " * 50_000] * 20}, 400),
    "more than text": ("/completions", {"model": "python-completer", "prompt": "a b " * 5_000_000}, 413),
    "a conversation": (
        "/chat/completions",
        {"model": "chatter", "messages": [{"role": "user", "content": "a b " * 900_000}]},
        400,
    ),
    "a text": ("/embeddings", {"model": "encoder", "input": "the cat " * 450_000}, 400),
    "texts": ("/tasks/embed", {"model": "encoder", "texts": ["the cat " * 200_000] * 2}, 400),
}  # fmt: skip


@pytest.fixture(scope="module")
def wide(folders):
    with running(folders, WIDE) as (address, _):
        yield address


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_told_by_its_bytes_while_others_are_answered(wide, name):
    path, asked, status = LARGE[name]
    body, before, waits = json.dumps(asked).encode(), peak(), []
    ended = threading.Event()

    def watch():
        while not ended.is_set():
            began = time.monotonic()
            assert httpx.get(f"{wide}/health", timeout=30).status_code == 200
            waits.append(time.monotonic() - began)

    watching = threading.Thread(target=watch)
    watching.start()
    answer = httpx.post(f"{wide}/v1{path}", content=body, timeout=60)
    ended.set()
    watching.join()
    assert answer.status_code == status
    assert peak() - before < 250  # megabytes, where tokenizing takes 800
    assert max(waits) < 1.5


@pytest.mark.parametrize(
    ("method", "asked"),
    [("zero_shot", {"texts": ["a" * 1000] * 100, "candidate_labels": ["b"] * 100}),
     ("rerank", {"queries": ["a" * 1000] * 100, "documents": ["b"] * 100}),
     ("next_sentence", {"first": "a" * 9000, "second": ["b"] * 999})],
)  # fmt: skip
def test_texts_that_are_read_together_are_counted_so(wide, method, asked, monkeypatch):
    """Each text is paired with all others."""
    from txexport.server import methods

    monkeypatch.setattr(methods, "needs", lambda *_: None)
    answer = httpx.post(f"{wide}/v1/tasks/{method}", json={"model": "proofreader"} | asked)
    assert answer.status_code == 413
    assert "characters as they are read together" in answer.json()["error"]["message"]


NESTED = [b"[" * 4_000_000, b'{"a": ' * 600_000]
MANY = [b"[" + b"[]," * 500_000 + b"[]]", b"[" + b"[]," * 1_300_000 + b"[]]", b"[" + b"{}," * 9_000_000]


@pytest.mark.parametrize("body", NESTED + MANY)
def test_json_of_many_parts_is_told(wide, body):
    for path in ("/v1/completions", "/v1/tasks/classify_image"):
        before = peak()
        answer = httpx.post(f"{wide}{path}", content=body, timeout=60)
        assert answer.status_code in (400, 413)
        assert len(answer.json()["error"]["message"]) < 200
        assert peak() - before < 250


def test_bodies_of_many_clients_have_one_room(folders):
    """Eight times the largest: further ones get a 503 meanwhile, and the room is released."""
    limits = dataclasses.replace(LIMITS, max_body=1000)
    with running({"encoder": folders["encoder"]}, limits) as (address, _), contextlib.ExitStack() as stack:
        head = POST + b"Content-Length: 1000\r\n\r\n" + b" " * 999
        held = [stack.enter_context(connected(address, head)) for _ in range(8)]
        asked = {"model": "encoder", "input": "x"}
        wait_until(lambda: httpx.post(f"{address}/v1/embeddings", json=asked).status_code == 429)
        for client in held:
            client.close()
        wait_until(lambda: httpx.post(f"{address}/v1/embeddings", json=asked).status_code == 200)


def test_headers_of_any_size_are_refused(server):
    with connected(server[0], b"GET /health HTTP/1.1\r\n") as client:
        with contextlib.suppress(OSError):
            for _ in range(200):
                client.sendall(b"x" * 1000)
        assert rest(client)[:13] in (b"HTTP/1.1 400 ", b"")
    assert httpx.get(f"{server[0]}/health").status_code == 200


def test_a_thousand_connections_lock_nobody_out(folders):
    with running({"encoder": folders["encoder"]}, most=100) as (address, _), contextlib.ExitStack() as stack:
        for number in range(300):
            stack.enter_context(connected(address, b"GET /hea" if number % 2 else b""))
        asked = {"model": "encoder", "input": "A kitten sleeps."}
        assert httpx.post(f"{address}/v1/embeddings", json=asked, timeout=20).status_code == 200
