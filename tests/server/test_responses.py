"""The Responses API: OpenAI's client reads what chat gives, whole and as events."""

import asyncio
import base64
import json
from types import SimpleNamespace

import httpx
import jsonschema
import openai
import pytest
from helpers import pictured
from helpers.pictured import picture
from helpers.serving import running
from helpers.stand_ins import MESSAGES

from txexport.exporter import export
from txexport.server.refusals import too_late
from txexport.server.responses import _events
from txexport.server.served import Limits

QUESTION = MESSAGES[0]["content"]
ORDER = [
    *("response.created", "response.in_progress", "response.output_item.added"),
    *("response.content_part.added", "response.output_text.delta", "response.output_text.done"),
    *("response.content_part.done", "response.output_item.done"),
]


def distinct(events):
    """The types of events, each run of equal ones once."""
    types = [event.type for event in events]
    return [one for number, one in enumerate(types) if number == 0 or types[number - 1] != one]


def test_a_response_is_what_chat_gives(client, model_of):
    model = model_of("chatter")
    expected = model.chat([{"role": "user", "content": QUESTION}], max_new_tokens=20, do_sample=False)
    body = {"model": "chatter", "input": QUESTION, "max_output_tokens": 20, "temperature": 0}
    response = client.responses.create(**body, metadata={"run": "7"})
    assert (response.output_text, response.status) == (expected, "incomplete")
    assert response.incomplete_details.reason == "max_output_tokens"
    prompt = client.chat.completions.create(
        model="chatter", messages=[{"role": "user", "content": QUESTION}], max_tokens=1
    ).usage.prompt_tokens
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (prompt, 20, prompt + 20)
    assert (response.metadata, response.store, response.temperature) == ({"run": "7"}, False, 0)
    events = list(client.responses.create(**body, stream=True))
    assert distinct(events) == [*ORDER, "response.incomplete"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text == expected
    assert events[-1].response.usage == usage


SCHEMA = {
    "type": "object",
    "properties": {"word": {"enum": ["dog", "cat"]}},
    "required": ["word"],
    "additionalProperties": False,
}
FORM = {"format": {"type": "json_schema", "name": "animal", "schema": SCHEMA, "strict": True}}


def test_the_clients_own_reader_of_streams_ends_with_the_response(client):
    body = {"model": "chatter", "input": QUESTION, "max_output_tokens": 60, "text": FORM}
    with client.responses.stream(**body) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert final.output_text == "".join(texts) == client.responses.create(**body).output_text
    assert (final.status, final.output[0].status) == ("completed", "completed")
    jsonschema.validate(json.loads(final.output_text), SCHEMA)


def test_instructions_and_items_are_the_conversation(client, model_of):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "How do "}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes?"}]},
        {"role": "user", "content": QUESTION},
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How do "},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": QUESTION},
    ]
    response = client.responses.create(
        model="chatter", instructions="Be brief.", input=items, max_output_tokens=12, temperature=0
    )
    expected = model_of("chatter").chat(messages, max_new_tokens=12, do_sample=False)
    assert response.output_text == expected


REFUSED = [
    ({"previous_response_id": "resp_1"}, "previous_response_id", "stores nothing, so previous_response_id"),
    ({"conversation": "conv_1"}, "conversation", "the server stores nothing, so conversation cannot"),
    ({"store": True}, "store", "store is true, expected false"),
    ({"background": True}, "background", "background is true, expected false"),
    ({"input": []}, "input", "input is [], expected a text that is not empty or a list"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "the server keeps no items"),
    ({"input": [{"type": "reasoning", "id": "x"}]}, "input", 'an item of input is "reasoning", expected'),
    ({"input": [{"role": "robot", "content": "x"}]}, "input", 'an item\'s role is "robot", expected one of'),
    ({"input": [{"role": "user", "content": 7}]}, "input", "an item's content is 7, expected a text or"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input", '"input_file", expected'),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]}, "input",
     'a message\'s part is "image_url", expected text only'),
    ({"max_output_tokens": 9999}, "max_output_tokens", "max_output_tokens is 9999, and this server gives"),
    ({"tools": [{"type": "web_search"}]}, "tools", 'a tool is "web_search", expected a function'),
    ({"tool_choice": "required"}, "tool_choice", 'tool_choice is "required", which needs tools'),
    ({"text": {"verbosity": "low"}}, "text", 'text has "verbosity", expected format only'),
    ({"text": {"format": {"type": "xml"}}}, "text", 'text is {"type": "xml"}, expected'),
    ({"reasoning": {"effort": "low"}}, "reasoning", "reasoning needs a chat template that reads one"),
    ({"reasoning": {"effort": "much"}}, "reasoning", 'reasoning is "much", expected "none" or'),
    ({"reasoning": {"summary": "auto"}}, "reasoning", 'reasoning has "summary", expected effort only'),
    ({"stream_options": {"x": 1}}, "stream_options", 'stream_options has "x", expected include_obfuscation'),
    ({"temperature": -1}, "temperature", "temperature is -1, expected a number from 0"),
    ({"n": 2}, "n", 'no field "n"; expected some of model, input'),
    ({"model": "encoder"}, None, "encoder does not chat; it is for embed"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "message"), REFUSED)
def test_what_is_not_served_is_one_line_about_the_field(fields, param, message, client):
    body = {"model": "chatter", "input": QUESTION} | fields
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/responses", body=body, cast_to=object)
    assert message in caught.value.body["message"]
    assert caught.value.param == param


def test_an_error_after_the_first_token_is_an_event():
    """The client gets a response that has failed, with the text of the error, and the end of the stream."""
    job, text = SimpleNamespace(calls=None), SimpleNamespace(finish_reason=None)
    answer = SimpleNamespace(job=job, texts=[text])

    async def steps():
        yield [(0, "quatre")]
        raise too_late(4)

    async def read():
        return [event async for event in _events({"id": "resp_1"}, {}, answer, steps())]

    *events, last = asyncio.run(read())
    assert events[-1]["type"] == "response.output_text.delta"
    assert (last["type"], last["response"]["id"]) == ("response.failed", "resp_1")
    error = last["response"]["error"]
    assert error["code"] == "server_error"
    assert error["message"].startswith("the answer took more than 4 seconds")
    assert [event["sequence_number"] for event in (*events, last)] == list(range(len(events) + 1))


def test_events_have_names_and_no_other_end(server):
    body = {"model": "chatter", "input": QUESTION, "max_output_tokens": 3, "stream": True}
    lines = httpx.post(f"{server[0]}/v1/responses", json=body).text.splitlines()
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    data = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert names == [one["type"] for one in data]
    assert names[-1] == "response.incomplete"


def test_requests_are_counted(client, server):
    client.responses.create(model="chatter", input=QUESTION, max_output_tokens=2)
    text = httpx.get(f"{server[0]}/metrics").text
    assert 'txexport_requests_total{endpoint="responses",status="200"}' in text


def test_images_are_read(tmp_path):
    pictured.save(tmp_path / "checkpoint")
    export(tmp_path / "checkpoint", tmp_path / "llava", only="native")
    limits = Limits(cache_tokens=4096, max_new_tokens=50, max_waiting=9, max_body=30_000, timeout=60)
    image = picture(31, 40)
    url = f"data:image/png;base64,{base64.b64encode(pictured.encoded(image)).decode()}"
    with running({"llava": tmp_path / "llava"}, limits) as (address, served):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)
        parts = [
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_text", "text": "the cat?"},
        ]
        body = {"model": "llava", "max_output_tokens": 9, "temperature": 0}
        response = client.responses.create(**body, input=[{"role": "user", "content": parts}])
        content = [{"type": "image", "image": image}, {"type": "text", "text": "the cat?"}]
        expected = served["llava"].model.chat(
            [{"role": "user", "content": content}], max_new_tokens=9, do_sample=False
        )
        assert response.output_text == expected
        parts[0]["image_url"] = "https://example.org/a.png"
        with pytest.raises(openai.BadRequestError, match="expected a data URL; this server fetches nothing"):
            client.responses.create(**body, input=[{"role": "user", "content": parts}])
