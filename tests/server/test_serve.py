"""A server answers OpenAI's client as the model does, refuses the rest in a line, and forgets who left."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import wave
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import numpy as np
import openai
import pytest
import transformers
from helpers.row import Row
from helpers.serving import running, texts_running, wait_until

from txexport.exporter import export
from txexport.server.served import Limits

IMAGE = [{"type": "image_url"}]
QUESTION = [{"role": "user", "content": "How do the French say eighty-one?"}]


def test_models_are_listed(client, folders):
    assert [one.id for one in client.models.list()] == list(folders)
    assert client.models.retrieve("encoder").task == "feature-extraction"


def test_completions_are_what_generate_gives(client, model_of):
    model = model_of("python-completer")
    expected = model.generate(["def read(", "class A"], max_new_tokens=16)
    result = client.completions.create(model="python-completer", prompt=["def read(", "class A"])
    assert [choice.text for choice in result.choices] == expected
    assert [choice.finish_reason for choice in result.choices] == ["length"] * 2
    assert result.usage.completion_tokens == 32
    assert result.usage.prompt_tokens == sum(len(one) for one in model.text.encode(["def read(", "class A"]))
    ids = model.text.encode(["def read("])[0].ids
    told = client.completions.create(model="python-completer", prompt=ids, echo=True)
    assert told.choices[0].text == "def read(" + expected[0]


def test_drawn_completions_are_those_of_their_seed(client, model_of):
    prompts, options = ["import ", "x = "], {"seed": 4, "temperature": 0.9, "top_p": 0.8}
    expected = model_of("python-completer").generate(
        prompts, max_new_tokens=9, num_return_sequences=3, do_sample=True, top_k=7, **options
    )
    result = client.completions.create(
        model="python-completer",
        prompt=["import ", "x = "],
        max_tokens=9,
        n=3,
        extra_body={"top_k": 7},
        **options,
    )
    assert [choice.text for choice in result.choices] == [text for texts in expected for text in texts]


def test_log_probs_are_those_of_the_model(client, model_of):
    model = model_of("python-completer")
    ids = model.text.encode(["for i in"])[0].ids
    [alone] = model.generate_with_scores([ids], log_probs=True, max_new_tokens=6)
    given = client.completions.create(model="python-completer", prompt="for i in", max_tokens=6, logprobs=2)
    told = given.choices[0].logprobs
    np.testing.assert_allclose(told.token_logprobs, alone.log_probs, atol=1e-5)
    assert "".join(told.tokens) == given.choices[0].text
    assert all(max(top.values()) == pytest.approx(value) for top, value in
               zip(told.top_logprobs, told.token_logprobs, strict=True))  # fmt: skip


@pytest.mark.parametrize("stop", ["return", ["xyzzy", "\n"], "self.", ["f", "file)"]])
def test_texts_end_before_stops_whole_and_in_pieces(client, model_of, stop):
    asked = {"model": "python-completer", "prompt": "def read_lines(path):\n    with open(", "max_tokens": 60}
    long = model_of("python-completer").generate(asked["prompt"], max_new_tokens=60)
    places = [at for one in ([stop] if isinstance(stop, str) else stop) if (at := long.find(one)) >= 0]
    expected = long[: min(places)] if places else long
    whole = client.completions.create(**asked, stop=stop).choices[0]
    pieces = list(client.completions.create(**asked, stop=stop, stream=True))
    assert whole.text == expected == "".join(one.choices[0].text for one in pieces)
    assert whole.finish_reason == pieces[-1].choices[0].finish_reason == ("stop" if places else "length")


def test_a_conversation_streams_what_chat_gives(client, model_of):
    expected = model_of("chatter").chat(QUESTION, max_new_tokens=30)
    whole = client.chat.completions.create(model="chatter", messages=QUESTION, max_tokens=30)
    assert whole.choices[0].message.content == expected
    parts = [{"role": "user", "content": [{"type": "text", "text": QUESTION[0]["content"]}]}]
    stream = client.chat.completions.create(
        model="chatter", messages=parts, max_completion_tokens=30, stream=True, logprobs=True, top_logprobs=1,
        stream_options={"include_usage": True},
    )  # fmt: skip
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == expected
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    told = [one.choices[0].logprobs for one in chunks if one.choices[0].logprobs]
    assert sum(len(one.content) for one in told) == last.usage.completion_tokens


def test_answers_fit_a_schema(client):
    properties = {"word": {"enum": ["dog", "cat"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}}
    schema = {"type": "object", "properties": properties, "required": ["word", "age"]}
    schema["additionalProperties"] = False
    wanted = {"type": "json_schema", "json_schema": {"name": "animal", "schema": schema}}
    asked = {"model": "chatter", "messages": QUESTION, "max_tokens": 60, "response_format": wanted}
    [choice] = client.chat.completions.create(**asked).choices
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content), schema)
    pieces = [
        one.choices[0].delta.content or "" for one in client.chat.completions.create(**asked, stream=True)
    ]
    assert "".join(pieces) == choice.message.content


def test_translations_are_what_beams_find(client, model_of):
    model = model_of("number-translator")
    for body in ({}, {"num_beams": 4}):
        expected = model.generate("two hundred and six", max_new_tokens=40, **body)
        asked = {"model": "number-translator", "prompt": "two hundred and six", "max_tokens": 40}
        result = client.completions.create(**asked, extra_body=body)
        assert result.choices[0].text == expected


def test_embeddings_are_the_models(client, model_of):
    texts = ["A kitten sleeps.", "Rates rose."]
    expected = model_of("encoder").embed(texts)
    result = client.embeddings.create(model="encoder", input=texts)  # base64, as the client asks for
    np.testing.assert_allclose([one.embedding for one in result.data], expected, atol=1e-6)
    assert result.usage.prompt_tokens == sum(len(one) for one in model_of("encoder").text.encode(texts))
    short = client.embeddings.create(model="encoder", input=texts[0], dimensions=9, encoding_format="float")
    cut = expected[0, :9] / np.linalg.norm(expected[0, :9])
    np.testing.assert_allclose(short.data[0].embedding, cut, atol=1e-6)


def test_a_sound_is_written_down(checkpoint_of, tmp_path):
    """The file that is sent, and never one that the server has by that name."""
    row = Row("whisper", "WhisperForConditionalGeneration", "automatic-speech-recognition", "served",
              {"max_source_positions": 50})  # fmt: skip
    shutil.copytree(checkpoint_of(row), tmp_path / "checkpoint")
    transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1).save_pretrained(
        tmp_path / "checkpoint"
    )
    export(tmp_path / "checkpoint", tmp_path / "speech")
    samples = (np.sin(np.arange(9000) / 7) * 16_000).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    limits = Limits(cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=10**6, timeout=60)
    with running({"speech": tmp_path / "speech"}, limits) as (address, served):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)
        expected = served["speech"].model.transcribe(str(tmp_path / "sound.wav"))
        sound = (tmp_path / "sound.wav").read_bytes()
        told = client.audio.transcriptions.create(model="speech", file=("/etc/passwd", sound))
        assert told.text == expected
        assert expected
        for wrong in (b"", b"RIFF", sound[:99]):
            with pytest.raises(openai.BadRequestError, match="sound"):
                client.audio.transcriptions.create(model="speech", file=("a.wav", wrong))
        refused = httpx.post(
            f"{address}/v1/audio/transcriptions", content=b"x", headers={"content-type": "a/b"}
        )
        assert refused.status_code == 400


def test_every_method_is_served_by_its_arguments(server, model_of):
    address, _ = server
    model = model_of("proofreader")
    asked = {"model": "proofreader", "texts": ["It is used.", ["It be", "used is."]], "top_k": 1}
    answer = httpx.post(f"{address}/v1/tasks/classify", json=asked).json()
    expected = model.classify(["It is used.", ("It be", "used is.")], top_k=1)
    assert [one[0]["label"] for one in answer] == [one[0]["label"] for one in expected]
    assert answer[0][0]["score"] == pytest.approx(expected[0][0]["score"], abs=1e-6)
    refused = httpx.post(f"{address}/v1/tasks/classify", json=asked | {"top": 1})
    assert refused.status_code == 400
    assert "no field 'top'; expected some of model, texts, top_k" in refused.json()["error"]["message"]


def test_many_at_once_get_what_each_gets_alone(client, model_of):
    """Texts that join and leave one batch, and embeddings that are gathered into others."""
    model, encoder = model_of("python-completer"), model_of("encoder")
    prompts = [f"def f{number}(" for number in range(12)]
    lengths = [1 + 7 * (number % 5) for number in range(12)]

    def complete(number):
        made = client.completions.create(
            model="python-completer", prompt=prompts[number], max_tokens=lengths[number]
        )
        vector = client.embeddings.create(model="encoder", input=prompts[number])
        return made.choices[0].text, vector.data[0].embedding

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(complete, range(12)))
    for number, (text, vector) in enumerate(answers):
        assert text == model.generate(prompts[number], max_new_tokens=lengths[number])
        np.testing.assert_allclose(vector, encoder.embed(prompts[number]), atol=1e-6)


REFUSED = [
    ("/completions", {"prompt": "a"}, 400, "model is missing, expected a text"),
    ("/completions", {"model": "x", "prompt": "a"}, 404, "no model 'x'; expected one of chatter"),
    ("/completions", {"model": "encoder", "prompt": "a"}, 400, "encoder completes no texts; it is for embed"),
    ("/completions", {"prompt": []}, 400, "prompt is [], expected a text or a list of 1 to 128"),
    ("/completions", {"prompt": "a", "temperature": -1}, 400, "temperature is -1, expected a number from 0"),
    ("/completions", {"prompt": "a", "n": True}, 400, "n is True, expected a whole number from 1 to 16"),
    ("/completions", {"prompt": "a", "suffix": "b"}, 400, "no field 'suffix'"),
    ("/completions", {"prompt": "a", "max_tokens": 201}, 400, "max_tokens is 201, and this server gives at"),
    ("/completions", {"prompt": "a " * 400}, 400, "leaves no room in the model's 256"),
    ("/completions", {"prompt": [99999]}, 400, "token ids run from 99999 to 99999"),
    ("/completions", {"prompt": "a", "echo": True, "logprobs": 1}, 400, "echo is not served with logprobs"),
    ("/completions", {"prompt": "a", "stream_options": {"x": 1}}, 400, "stream_options is for stream=true"),
    ("/completions", {"prompt": "a" * 30_000}, 413, "the body has more than 20,000 bytes"),
    ("/chat/completions", {"messages": QUESTION}, 400, "has no chat template; give a prompt as text"),
    ("/chat/completions", {"model": "chatter", "messages": [{"role": "user", "content": IMAGE}]},
     400, "a message's part is 'image_url', expected text alone"),
    ("/chat/completions", {"model": "chatter", "messages": QUESTION, "response_format": {"type": "x"}}, 400,
     "response_format is {'type': 'x'}, expected"),
    ("/embeddings", {"model": "encoder", "input": [1, 2]}, 400, "check_embedding_ctx_length=False"),
    ("/embeddings", {"model": "encoder", "input": "a", "dimensions": 999}, 400, "truncate_dim is 999"),
    ("/embeddings", {"model": "encoder", "input": "a " * 600}, 400, "tokens is longer than 256"),
    ("/rerank", {"model": "encoder", "query": "a", "documents": ["b"]}, 400, "encoder does not rerank"),
    ("/tasks/generate", {"prompts": "a"}, 404, "no task 'generate'; see POST /v1/completions"),
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


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": "\xff"}', b"[" * 9000, b'{"n": NaN}', b"[1]", b"null"])
def test_bodies_that_are_no_json_are_told(server, body):
    answer = httpx.post(f"{server[0]}/v1/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("the body is")


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
            timeout=httpx.Timeout(10, read=10 if stream else 0.3),
        ) as answer,
    ):
        next(answer.iter_lines())
    made = max((len(row.result.tokens) for row in before.running), default=0)
    wait_until(lambda: texts_running(served) == 0)
    assert made < 190


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


def test_an_answer_that_takes_too_long_is_ended(folders):
    limits = Limits(cache_tokens=4096, max_new_tokens=200, max_waiting=99, max_body=20_000, timeout=0.05)
    with running({"one": folders["python-completer"]}, limits) as (address, served):
        asked = {"model": "one", "prompt": "x", "max_tokens": 200}
        answer = httpx.post(f"{address}/v1/completions", json=asked)
        assert answer.status_code == 504
        assert "took more than 0.05 seconds" in answer.json()["error"]["message"]
        wait_until(lambda: texts_running(served, "one") == 0)


def test_only_who_has_a_key_is_answered(folders):
    with running({"encoder": folders["encoder"]}, keys=("first", "second")) as (address, _):
        for key, status in (("first", 200), ("second", 200), ("third", 401), ("firs", 401), ("firstt", 401)):
            headers = {"authorization": f"Bearer {key}"}
            assert httpx.get(f"{address}/v1/models", headers=headers).status_code == status
        assert httpx.get(f"{address}/v1/models").headers["www-authenticate"] == "Bearer"
        assert httpx.get(f"{address}/health").json() == {"status": "ok"}
        assert httpx.get(f"{address}/metrics").status_code == 401


def test_pages_name_all_that_is_served(server):
    address, _ = server
    listed = httpx.get(f"{address}/openapi.json").json()["paths"]
    assert {"/v1/embeddings", "/v1/tasks/tag", "/v1/audio/transcriptions"} <= listed.keys()
    body = listed["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["model", "prompt"]
    assert body["properties"]["n"] == {"type": "integer", "minimum": 1, "maximum": 16,
                                       "description": "Answers to each prompt."}  # fmt: skip
    page = httpx.get(f"{address}/docs").text
    assert all(f"POST {path}" in page for path in listed if "post" in listed[path])
    assert "http" not in page.replace("httpx", "")  # nothing of it comes from elsewhere


def test_metrics_count_requests_and_tokens(client, server):
    address, _ = server

    def read():
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    before = read()
    client.completions.create(model="python-completer", prompt="x", max_tokens=5)
    after = read()
    made, done = 'txexport_tokens_total{kind="completion"}', 'endpoint="completions",status="200"'
    assert float(after[made]) - float(before[made]) == 5
    name = f"txexport_requests_total{{{done}}}"
    assert float(after[name]) - float(before[name]) == 1
    assert after['txexport_running_texts{model="chatter"}'] == "0.0"


def test_the_command_ends_what_runs_and_takes_no_more(folders):
    """SIGTERM during an answer: the answer is whole, the exit code 0."""
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
