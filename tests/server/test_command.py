"""The serve command: its port, its signals, and its errors over HTTP."""

import contextlib
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from helpers.serving import wait_until

from txexport.errors import BundleError, InputError
from txexport.server import serve
from txexport.server.refusals import MissingLibraryError, refusal_of, renamed
from txexport.server.served import named

POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"


@contextlib.contextmanager
def command(folder, *options):
    """The command in a process of its own, and the address of it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    arguments = [sys.executable, "-m", "txexport", "serve", str(folder), "--port", str(port), *options]
    process = subprocess.Popen(
        arguments,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's "&" ignores
    )
    address = f"http://127.0.0.1:{port}"

    def answers():
        with contextlib.suppress(httpx.ConnectError):
            return httpx.get(f"{address}/health").status_code == 200

    try:
        wait_until(answers, 60)
        yield process, address
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("begun", [POST, b"POST /v1/comp", b""], ids=["body", "head", "none"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_half_a_request_holds_no_server_up(folders, begun, sent):
    with command(folders["encoder"], "--threads", "1") as (process, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(begun)
            time.sleep(0.3)
            began = time.monotonic()
            process.send_signal(sent)
            code = process.wait(20)
            assert time.monotonic() - began < 5  # it was 29
        assert code == (0 if sent == signal.SIGTERM else 130)
        assert "Traceback" not in process.stderr.read()


def test_work_that_nobody_waits_for_holds_no_server_up(folders):
    with command(folders["encoder"], "--threads", "1") as (process, address):
        asked = {"model": "encoder", "input": ["the cat " * 240] * 2000, "truncate": True}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/embeddings", json=asked, timeout=2)
        process.terminate()
        assert process.wait(60) == 0  # all of it takes minutes


def test_a_port_in_use_is_one_line_and_exit_2(folders):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        arguments = [sys.executable, "-m", "txexport", "serve", str(folders["encoder"]), "--port", str(port)]
        ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
        told = f"cannot listen on 127.0.0.1:{port}: Address already in use; give another --port or --host"
        assert (ended.returncode, ended.stderr) == (2, f"error: {told}\n")
        with pytest.raises(InputError, match="Address already in use"):
            serve(folders["encoder"], port=port)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"host": "no.such.host.invalid"}, "cannot listen on no.such.host.invalid:8000: "),
        ({"host": "203.0.113.7"}, "Cannot assign requested address"),
        ({"port": 70_000}, "port is 70000, expected a whole number below 65536"),
        ({"host": "x" * 400}, "cannot listen on"),
    ],
)
def test_a_place_where_nobody_can_listen_is_told(folders, options, told):
    with pytest.raises(InputError) as raised:
        serve(folders["encoder"], **options)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("bundles", "expected"),
    [([], "at least one bundle's folder"), ((), "at least one bundle's folder"), ("", "a path")],
)
def test_a_server_of_nothing_is_refused(bundles, expected):
    with pytest.raises(InputError, match=rf"bundles is .*, expected {expected}"):
        serve(bundles, host="no.such.host.invalid")


def test_a_name_with_a_slash_is_not_taken_for_a_folder(folders, monkeypatch):
    monkeypatch.chdir(folders["encoder"].parent)
    with pytest.raises(InputError, match=r"^a/b=encoder: the name of a bundle has no /; .* b=encoder$"):
        named("a/b=encoder")


def test_errors_name_bundles_and_no_folder(server, folders):
    """In any folder of the server."""
    address, _ = server
    refused = [
        (
            "/v1/chat/completions",
            {"model": "python-completer", "messages": [{"role": "user", "content": "x"}]},
        ),
        ("/v1/tasks/fill_mask", {"model": "encoder", "texts": "x"}),
        ("/v1/embeddings", {"model": "encoder", "input": "x", "prompt_name": "none"}),
    ]
    for path, asked in refused:
        answer = httpx.post(f"{address}{path}", json=asked)
        assert answer.status_code == 400
        assert str(folders["encoder"].parent) not in answer.text
    told = httpx.post(f"{address}{refused[0][0]}", json=refused[0][1]).json()["error"]["message"]
    assert told.startswith("python-completer has no chat template")


def test_folders_have_the_names_of_bundles(tmp_path):
    from pathlib import Path

    paths = {Path("/srv/models"): "models", Path("/srv/models/a"): "one", Path("a"): "one", tmp_path: "two"}
    for text, told in (
        ("/srv/models/a has no tokenizer.json", "one has no tokenizer.json"),
        ("/srv/models/a/tokenizer.json cannot be read", "one/tokenizer.json cannot be read"),
        ("from /srv/models/ab, '/srv/models'", "from models/ab, 'models'"),
        ("a is no path here: banana /x/a a/b", "one is no path here: banana /x/a one/b"),
        (f"{tmp_path}: no", "two: no"),
    ):
        assert renamed(text, paths) == told
    assert str(refusal_of(BundleError(f"{tmp_path} is incomplete"), paths)) == "two is incomplete"
    old = MissingLibraryError(
        "images need PIL of another version (cannot import name 'x' from 'PIL' (/opt/a.py))"
    )
    assert "/opt" not in str(refusal_of(old, paths))


def test_files_that_clients_send_have_their_own_names(folders, tmp_path):
    from txexport.server.refusals import temporary_folder

    with pytest.raises(InputError) as raised, temporary_folder() as folder:
        raise InputError(f"sound {folder / 'sounds[0]'} cannot be read: no such file '{folder}/x'")
    assert str(raised.value) == "sound sounds[0] cannot be read: no such file 'x'"


def test_an_empty_prompt_says_so(server):
    for prompt in ("", ["x", ""]):
        asked = {"model": "python-completer", "prompt": prompt}
        answer = httpx.post(f"{server[0]}/v1/completions", json=asked)
        assert answer.status_code == 400
        assert "a prompt is '', for which the tokenizer gives no tokens" in answer.json()["error"]["message"]
