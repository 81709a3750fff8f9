"""Sounds in chat completions: bytes that the request holds, and nothing that would have to be fetched."""

import base64
import io
import wave

import httpx
import numpy as np
import openai
import pytest
from helpers import sounded
from helpers.serving import running
from helpers.sounded import RATE, sound

from txexport.exporter import export
from txexport.server.served import Limits

LIMITS = Limits(
    cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=90_000, timeout=60, max_text=3_000
)


def encoded(samples):
    """The bytes of a WAV file."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.round(samples * 32767).astype("<i2").tobytes())
    return stream.getvalue()


def heard(data, text="what is that?"):
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    return [{"role": "user", "content": [part, {"type": "text", "text": text}]}]


@pytest.fixture(scope="module")
def listening(tmp_path_factory):
    """The address of a server of a model that reads sounds, and the model."""
    root = tmp_path_factory.mktemp("listening")
    (root / "checkpoint").mkdir()
    sounded.save(root / "checkpoint")
    export(root / "checkpoint", root / "qwen", only="native")
    with running({"qwen": root / "qwen"}, LIMITS) as (address, served):
        yield address, served["qwen"].model


def test_answers_are_those_of_the_model(listening):
    address, model = listening
    completions = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0).chat.completions
    answers = set()
    for samples in (sound(5003), sound(16000)):
        data = encoded(samples)
        content = [{"type": "audio", "audio": data}, {"type": "text", "text": "what is that?"}]
        expected = model.chat([{"role": "user", "content": content}], max_new_tokens=9, do_sample=False)
        messages = heard(base64.b64encode(data).decode())
        answer = completions.create(model="qwen", messages=messages, max_tokens=9, temperature=0)
        assert answer.choices[0].message.content == expected
        answers.add(expected)
    assert len(answers) == 2


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "input_audio", "input_audio": {"data": 3}}, "expected data in base64, and its format"),
        ({"type": "input_audio", "input_audio": {"data": "?"}}, "a sound is not valid base64"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, "sound"),
        ({"type": "image_url", "image_url": {"url": "data:,"}}, "expected text or input_audio"),
        ({"type": "audio", "audio": "/etc/hostname"}, "expected text or input_audio"),
    ],
    ids=str,
)
def test_what_is_no_sound_is_an_error_of_one_line(listening, part, message):
    body = {"model": "qwen", "messages": [{"role": "user", "content": [part]}]}
    answer = httpx.post(f"{listening[0]}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "messages"
