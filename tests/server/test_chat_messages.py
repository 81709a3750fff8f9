"""Conversations from OpenAI's client reach the template in transformers' form."""

import pytest
from transformers import AutoTokenizer

from txexport.server.messages import read_message

CALL = {"id": "c1", "type": "function", "function": {"name": "in_french", "arguments": '{"number": "one"}'}}
CALLED = [
    {"role": "user", "content": "How do the French say one?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "un", "tool_call_id": "c1"},
]


def test_a_call_without_content_says_nothing(client, folders):
    """The content of a call is null there; a template that writes content writes nothing."""
    result = client.chat.completions.create(model="chatter", messages=CALLED, max_tokens=1)
    tokenizer = AutoTokenizer.from_pretrained(folders["chatter"])
    expected = tokenizer.apply_chat_template(CALLED, add_generation_prompt=True).input_ids
    assert result.usage.prompt_tokens == len(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"number": "one", "n": [1, {"é": null}]}', {"number": "one", "n": [1, {"é": None}]}),
        ("{}", {}),
        ("not JSON {", "not JSON {"),
        ("7", "7"),
        ("", ""),
        ({"number": "one"}, {"number": "one"}),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_of_a_call_are_an_object(arguments, expected):
    """Templates write them as JSON, so that text would stand in quotes."""
    function = {"name": "in_french", "arguments": arguments}
    message = {"role": "assistant", "content": None, "tool_calls": [CALL | {"function": function}]}
    given = read_message(message)["tool_calls"][0]
    assert given == CALL | {"function": {"name": "in_french", "arguments": expected}}
    assert message["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize("calls", [[], [7], [{"function": 7}], [{"id": "x"}], "text", {}])
def test_calls_of_another_kind_stay_as_they_are(calls):
    message = {"role": "assistant", "tool_calls": calls}
    assert read_message(message) == message
