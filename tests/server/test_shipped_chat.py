"""The shipped chat model, served: OpenAI's client chats with it, streams, and gets calls of functions."""

import json

import pytest
from demonstration.scenes import REQUEST, TOOL
from helpers.project import ROOT
from helpers.serving import running, slowed
from openai import OpenAI

import txexport

QUESTION = {"role": "user", "content": "What is the capital of France?"}
ASKED = {"role": "user", "content": REQUEST}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    bundle = tmp_path_factory.mktemp("chat") / "chat"
    txexport.export(ROOT / "models/pretrained/chatter", bundle, only="native")
    with running({"chat": bundle}) as running_server:
        yield running_server


@pytest.fixture(scope="module")
def client(server):
    return OpenAI(base_url=f"{server[0]}/v1", api_key="any", max_retries=0)


def test_an_answer_ends_and_its_stream_is_the_same_text(client, server, monkeypatch):
    messages = [QUESTION]
    answer = client.chat.completions.create(model="chat", messages=messages).choices[0]
    assert answer.message.content == "The capital of France is Paris."
    assert answer.finish_reason == "stop"
    slowed(server[1], "chat", monkeypatch)
    stream = list(client.chat.completions.create(model="chat", messages=messages, stream=True))
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == answer.message.content
    assert len(pieces) > 5
    messages += [
        {"role": "assistant", "content": answer.message.content},
        {"role": "user", "content": "And of Italy?"},
    ]
    answer = client.chat.completions.create(model="chat", messages=messages).choices[0]
    assert answer.message.content == "The capital of Italy is Rome."


def test_a_function_is_called_and_its_result_answered(client):
    messages = [ASKED]
    answer = client.chat.completions.create(model="chat", messages=messages, tools=[TOOL]).choices[0]
    [call] = answer.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Lisbon"})
    assert answer.finish_reason == "tool_calls"
    messages += [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "21 degrees, sunny"}]
    answer = client.chat.completions.create(model="chat", messages=messages, tools=[TOOL]).choices[0]
    assert answer.message.content == "It is sunny in Lisbon, with 21 degrees."


def test_a_stream_has_the_call(client):
    stream = client.chat.completions.create(model="chat", messages=[ASKED], tools=[TOOL], stream=True)
    deltas = [call for chunk in stream for call in chunk.choices[0].delta.tool_calls or []]
    assert deltas[0].function.name == "get_weather"
    assert json.loads("".join(delta.function.arguments or "" for delta in deltas)) == {"city": "Lisbon"}
