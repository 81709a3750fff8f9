"""Refused requests get one line, and a status that tells the client's fault from the server's."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from click.testing import CliRunner
from helpers.serving import running, texts_running, wait_until

from txexport.cli.main import main
from txexport.errors import InputError
from txexport.server import serve
from txexport.server.served import Limits
from txexport.server.workers import TEXTS, CallThread

IMAGE = [{"type": "image_url"}]
QUESTION = [{"role": "user", "content": "How do the French say eighty-one?"}]


REFUSED = [
    ("/completions", {"prompt": "a"}, 400, "model is missing, expected a text"),
    ("/completions", {"model": "x", "prompt": "a"}, 404, 'no model "x"; expected one of chatter'),
    ("/completions", {"model": "encoder", "prompt": "a"}, 400, "encoder does not complete texts; it is for"),
    ("/completions", {"prompt": []}, 400, "prompt is [], expected a text, a list of up to 128 texts"),
    ("/completions", {"prompt": "a", "temperature": -1}, 400, "temperature is -1, expected a number from 0"),
    ("/completions", {"prompt": "a", "n": True}, 400, "n is true, expected a whole number from 1 to 16"),
    ("/completions", {"prompt": "a", "suffix": "b"}, 400, 'no field "suffix"'),
    ("/completions", {"prompt": "a", "max_tokens": 201}, 400, "max_tokens is 201, and this server gives at"),
    ("/completions", {"prompt": "a " * 400}, 400, "leaves no room in the model's 256"),
    ("/completions", {"prompt": [99999]}, 400, "token ids run from 99999 to 99999"),
    ("/completions", {"prompt": [2**40], "echo": True}, 400, "token ids run from 1099511627776"),
    ("/completions", {"prompt": "a", "echo": True, "logprobs": 1}, 400, "echo is not served with logprobs"),
    ("/completions", {"prompt": "a", "stream_options": {"x": 1}}, 400, "stream_options needs stream=true"),
    ("/completions", {"prompt": "a", "num_beams": 2, "n": 4}, 400, "n is 4, and 2 beams give at most 2"),
    ("/completions", {"prompt": "a" * 30_000}, 413, "the body has more than 20,000 bytes"),
    ("/chat/completions", {"messages": QUESTION}, 400, "has no chat template; generate takes a prompt"),
    ("/chat/completions", {"model": "chatter", "messages": [{"role": "user", "content": IMAGE}]},
     400, 'a message\'s part is "image_url", expected text only'),
    ("/chat/completions", {"model": "chatter", "messages": QUESTION, "response_format": {"type": "x"}}, 400,
     'response_format is {"type": "x"}, expected'),
    *[("/chat/completions", {"model": "chatter", "messages": [*QUESTION, {"role": "user", "content": one}]},
       400, f"messages[1].content is {json.dumps(one)}, expected a text, or a list of one part or more")
      for one in (5, {"a": 1}, True, 1.5, [], None)],
    ("/chat/completions", {"model": "chatter", "messages": [{"role": "user"}]}, 400,
     "messages[0].content is null, expected a text"),
    ("/chat/completions", {"model": "chatter", "messages": [{"content": "Hi"}]}, 400,
     "messages[0].role is null, expected one of system, developer, user"),
    ("/chat/completions", {"model": "chatter", "messages": [{"role": "user", "content": [{"type": "text"}]}]},
     400, "a part's text is null, expected a text"),
    ("/chat/completions", {"model": "chatter", "messages": QUESTION, "tools": [{}]}, 400,
     'tools has {}, expected {"type": "function", "function": {"name": "f"'),
    ("/chat/completions", {"model": "chatter", "messages": QUESTION, "tools": [{"name": "f"}]}, 400,
     'tools has {"name": "f"}, expected {"type": "function", "function": {"name": "f"'),
    ("/completions", {"prompt": "a", "max_token": 5}, 400, 'no field "max_token"; did you mean max_tokens'),
    ("/tasks/tagg", {"texts": "a"}, 404, 'no task "tagg"; did you mean tag?'),
    ("/tasks/sing", {"texts": "a"}, 404, 'no task "sing"; expected all_masks, answer,'),
    ("/chat/completion", {}, 404, "is not served; did you mean /v1/chat/completions or "),
    ("/models", {}, 405, "POST /v1/models is not served; send GET or HEAD; see GET /docs"),
    ("/audio/transcriptions", {}, 400,
     "the body is application/json, expected multipart/form-data with the sound's bytes as the field file"),
    ("/embeddings", {"model": "encoder", "input": []}, 400, "input is [], expected a text or a list of 1"),
    ("/embeddings", {"model": "encoder", "input": ["a", ""]}, 400, "input[1] is empty, expected a text"),
    ("/embeddings", {"model": "encoder", "input": [1, 2]}, 400, "check_embedding_ctx_length=False"),
    ("/embeddings", {"model": "encoder", "input": "a", "dimensions": 999}, 400, "dimensions is 999, and"),
    ("/embeddings", {"model": "encoder", "input": "a " * 600}, 400, "tokens is longer than 256"),
    ("/rerank", {"model": "encoder", "query": "a", "documents": ["b"]}, 400, "encoder does not rerank"),
    ("/tasks/generate", {"prompts": "a"}, 404, 'no task "generate"; see POST /v1/completions'),
    ("/tasks/image_to_text", {"images": "YQ==", "max_new_tokens": 201}, 400, "this server gives at most 200"),
    ("/tasks/image_to_text", {"images": "YQ==", "num_beams": 17}, 400, "num_beams is 17, expected a whole"),
    ("/tasks/embed_image", {"model": "encoder", "images": "/etc/passwd"}, 400, "encoder does not"),
    ("/moderations", {"input": "a"}, 404, "POST /v1/moderations is not served; see GET /docs"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "asked", "status", "message"), REFUSED)
def test_what_is_not_served_is_one_line(server, path, asked, status, message):
    if message != "model is missing, expected a text":
        asked = {"model": "python-completer"} | asked
    answer = httpx.post(f"{server[0]}/v1{path}", json=asked)
    assert answer.status_code == status
    told = answer.json()["error"]
    assert message in told["message"]
    assert "\n" not in told["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "hint"),
    [
        ("POST", "/chat/completions", 404, "did you mean /v1/chat/completions?"),
        ("POST", "/tasks/tag", 404, "did you mean /v1/tasks/tag?"),
        ("GET", "/v1/chat/completions", 405, "send POST"),
        ("GET", "/", 404, None),
    ],
)
def test_a_path_beside_those_of_the_server_names_them(server, method, path, status, hint):
    answer = httpx.request(method, server[0] + path)
    end = "; see GET /docs" if hint is None else f"; {hint}; see GET /docs"
    assert answer.status_code == status
    assert answer.json()["error"]["message"] == f"{method} {path} is not served{end}"
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


def test_no_server_starts_without_time_to_answer(folders):
    for timeout in (-1, 0, float("nan")):
        with pytest.raises(InputError, match=r"^timeout is \S+, expected seconds, more than 0$"):
            serve(folders["encoder"], timeout=timeout, host="no.such.host.invalid")
    command = ["serve", str(folders["encoder"]), "--host", "no.such.host.invalid", "--timeout", "nan"]
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, "timeout is nan, expected seconds" in result.output) == (2, True)


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": "\xff"}', b"[" * 9000, b'{"n": NaN}', b"[1]", b"null"])
def test_bodies_that_are_no_json_are_told(server, body):
    answer = httpx.post(f"{server[0]}/v1/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("the body is")


def test_too_many_are_turned_away_and_none_is_lost(folders):
    limits = Limits(cache_tokens=60, max_new_tokens=200, max_waiting=2, max_body=20_000, timeout=60)
    with running({"one": folders["python-completer"]}, limits) as (address, served):

        def ask(number):
            asked = {"model": "one", "prompt": "x", "max_tokens": 40}
            return httpx.post(f"{address}/v1/completions", json=asked, timeout=60)

        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(ask, range(12)))
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {200, 429}
        assert all(one.headers["retry-after"] == "2" for one in answers if one.status_code == 429)
        assert len({one.json()["choices"][0]["text"] for one in answers if one.status_code == 200}) == 1
        assert texts_running(served, "one") == 0


def test_texts_of_one_request_wait_as_one(folders):
    limits = Limits(cache_tokens=60, max_new_tokens=200, max_waiting=2, max_body=20_000, timeout=60)
    asked = {"model": "one", "prompt": ["x"] * 8, "n": 2, "max_tokens": 50}
    with (
        running({"one": folders["python-completer"]}, limits) as (address, served),
        ThreadPoolExecutor(1) as own,
    ):
        first = own.submit(httpx.post, f"{address}/v1/completions", json=asked, timeout=60)
        wait_until(lambda: served["one"].generation.batch.waiting)
        assert served["one"].generation.waiting == 1
        more = httpx.post(f"{address}/v1/completions", json=asked | {"prompt": "x", "n": 1}, timeout=60)
        assert (more.status_code, first.result().status_code) == (200, 200)
        first = own.submit(httpx.post, f"{address}/v1/completions", json=asked | {"n": 5}, timeout=60)
        wait_until(lambda: len(served["one"].generation.batch.waiting) >= TEXTS * limits.max_waiting)
        more = httpx.post(f"{address}/v1/completions", json=asked | {"prompt": "x", "n": 1}, timeout=60)
        assert (more.status_code, first.result().status_code) == (429, 200)


def test_calls_that_others_were_gathered_before_still_wait():
    calls = CallThread("calls", most_waiting=3)
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def held(inputs):
        begun.release()
        assert may_end.acquire(timeout=20)
        return inputs

    async def ask():
        asked = []
        for keys in ("a", "bcd"):
            asked += [asyncio.ensure_future(calls.call(held, [key], key)) for key in keys]
            if keys == "a":
                await asyncio.to_thread(begun.acquire, timeout=20)
        await asyncio.sleep(0)
        may_end.release()
        await asyncio.to_thread(
            begun.acquire, timeout=20
        )  # b runs; c and d, of other keys, are out of the queue
        assert calls.waiting == 2
        asked += [asyncio.ensure_future(calls.call(held, [key], key)) for key in "ef"]
        await asyncio.sleep(0)
        may_end.release(9)
        return await asyncio.gather(*asked, return_exceptions=True)

    *answers, refused = asyncio.run(ask())
    calls.stop()
    assert answers == [["a"], ["b"], ["c"], ["d"], ["e"]]
    assert refused.status == 429


def test_a_blank_key_opens_no_server(folders):
    for key in ("", " ", "a\n", "ä"):
        with pytest.raises(InputError, match="a key of api_keys is blank or has characters"):
            serve(folders["encoder"], api_keys=["one", key])
    for value in ("", " "):
        result = CliRunner(env={"TXEXPORT_API_KEY": value}).invoke(main, ["serve", str(folders["encoder"])])
        assert result.exit_code == 2
        assert "TXEXPORT_API_KEY is blank" in result.output


def test_only_who_has_a_key_is_answered(folders):
    with running({"encoder": folders["encoder"]}, keys=("first", "second")) as (address, _):
        for key, status in (("first", 200), ("second", 200), ("third", 401), ("firs", 401), ("firstt", 401)):
            headers = {"authorization": f"Bearer {key}"}
            assert httpx.get(f"{address}/v1/models", headers=headers).status_code == status
        assert httpx.get(f"{address}/v1/models").headers["www-authenticate"] == "Bearer"
        assert httpx.get(f"{address}/health").json() == {"status": "ok"}
        assert httpx.get(f"{address}/metrics").status_code == 401
