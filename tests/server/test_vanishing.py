"""Clients disconnect, stall or send slowly, and the server is stopped: other requests are unaffected."""

import contextlib
import json
import socket
import subprocess
import sys
import time

import httpx
import pytest
from helpers.serving import texts_running, wait_until


@pytest.mark.parametrize("stream", [True, False])
def test_who_goes_is_forgotten(server, stream):
    address, served = server
    asked = {"model": "python-completer", "prompt": "x", "max_tokens": 200, "stream": stream, "n": 16,
             "temperature": 1}  # fmt: skip
    before = served["python-completer"].generation.batch
    with (
        contextlib.suppress(httpx.ReadTimeout),
        httpx.stream(
            "POST",
            f"{address}/v1/completions",
            json=asked,
            timeout=httpx.Timeout(10, read=10 if stream else 0.1),
        ) as answer,
    ):
        next(answer.iter_lines())
    made = max((len(row.result.tokens) for row in before.running), default=0)
    wait_until(lambda: texts_running(served) == 0)
    assert made < 190


def test_the_command_ends_what_runs_and_takes_no_more(folders):
    """SIGTERM during a response: the response is complete, the exit code 0."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "txexport",
        "serve",
        str(folders["python-completer"]),
        "--port",
        str(port),
    ]
    process = subprocess.Popen([*command, "--threads", "1"], stderr=subprocess.PIPE, text=True)
    address, lines = f"http://127.0.0.1:{port}", []
    try:
        while not lines:
            with contextlib.suppress(httpx.ConnectError):
                httpx.get(f"{address}/health")
                asked = {"model": "python-completer", "prompt": "x", "max_tokens": 200, "stream": True}
                with httpx.stream("POST", f"{address}/v1/completions", json=asked, timeout=60) as answer:
                    for line in answer.iter_lines():
                        lines.append(line)
                        if len(lines) == 1:
                            process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert lines[-2:] == ["data: [DONE]", ""]
    assert '"finish_reason": "length"' in lines[-4]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")
    assert "POST /v1/completions 200" in process.stderr.read()


def test_a_body_in_drips_is_answered(server):
    host, port = server[0].removeprefix("http://").split(":")
    body = b'{"model": "python-completer", "prompt": "def read(", "max_tokens": 3}'
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as client:
        for start in range(0, len(head.encode() + body), 9):
            client.sendall((head.encode() + body)[start : start + 9])
            time.sleep(0.01)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    whole = httpx.post(f"{server[0]}/v1/completions", content=body).json()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["choices"] == whole["choices"]
