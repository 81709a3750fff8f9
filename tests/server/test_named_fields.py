"""An error names the field at fault, under the name that the client sent, with its value as JSON."""

import json

import httpx
import pytest

from txexport.errors import BundleError, EngineError, InputError
from txexport.server.refusals import RefusedError, naming, refusal_of

QUESTION = [{"role": "user", "content": "How do the French say eighty-one?"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strin"}}}
LONG, HALF = "a " * 5000, "\ud800"

COMPLETIONS = [
    ({"prompt": "a " * 400}, "prompt", "a prompt of 401 tokens leaves no room"),
    ({"prompt": "a " * 400, "num_beams": 2}, "prompt", "a prompt of 401 tokens leaves no room"),
    ({"prompt": ""}, "prompt", "a prompt is ''"),
    ({"prompt": [99999]}, "prompt", "token ids run from 99999"),
    ({"prompt": None}, "prompt", "prompt is null, expected a text, a list of up to 128 texts, or token ids"),
    ({"prompt": "a", "logit_bias": {"a": 1}}, "logit_bias", "logit_bias is "),
    ({"prompt": "a", "logit_bias": {"99999": 1}}, "logit_bias", "logit_bias has token 99999"),
    ({"prompt": "a", "stop": [""]}, "stop",
     'stop is [""], expected a text or a list of up to 16, none of them empty'),
    ({"prompt": "a", "store": True}, "store", "store is true, expected false"),
]  # fmt: skip
CHAT = [
    ({"messages": [{"role": "wizard", "content": "Hi"}]}, "messages",
     'messages[0].role is "wizard", expected one of system, developer, user, assistant, tool, function'),
    ({"messages": [*QUESTION, {"role": "assistant"}]}, "messages", "messages[1].content is null, expected"),
    ({"messages": [{"role": "user", "content": LONG}]}, "messages", "tokens leaves no room"),
    ({"messages": [{"role": "user", "content": HALF}]}, "messages", "messages is not valid Unicode: "),
    ({"tools": [{"type": "function", "function": {"name": HALF}}]}, "tools", "tools is not valid Unicode: "),
    ({HALF: 1}, "\\ud800", 'no field "\\ud800"'),
    ({"logit_bias": {"a": 1}}, "logit_bias", "logit_bias is "),
    ({"response_format": SCHEMA}, "response_format", "response_format is not valid: "),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens",
     "max_completion_tokens is 6 and max_tokens is 5; send one of them"),
    ({"max_completion_tokens": 999}, "max_completion_tokens", "max_completion_tokens is 999, and"),
]  # fmt: skip
RESPONSES = [
    ({"input": LONG}, "input", "tokens leaves no room"),
    ({"logit_bias": {"a": 1}}, "logit_bias", "logit_bias is "),
    ({"text": {"format": {"type": "json_schema", **SCHEMA["json_schema"]}}}, "text", "text is not valid: "),
]
EMBEDDINGS = [
    ({"input": "a " * 600}, "input", "tokens is longer than 256"),
    ({"prompt_name": "z"}, "prompt_name", "prompt_name 'z' is not known"),
]
CASES = [
    *(("/completions", {"model": "python-completer"}, *one) for one in COMPLETIONS),
    *(("/chat/completions", {"model": "chatter", "messages": QUESTION}, *one) for one in CHAT),
    *(("/responses", {"model": "chatter", "input": "Hi"}, *one) for one in RESPONSES),
    *(("/embeddings", {"model": "encoder", "input": "a"}, *one) for one in EMBEDDINGS),
    ("/tasks/tag", {"model": "chatter"}, {"texts": None}, "texts", "texts is null, expected"),
]


@pytest.mark.parametrize(("path", "usual", "fields", "param", "message"), CASES)
def test_an_error_names_its_field(path, usual, fields, param, message, server):
    answer = httpx.post(f"{server[0]}/v1{path}", content=json.dumps(usual | fields))
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert message in error["message"]
    assert "\n" not in error["message"]


def test_one_limit_of_tokens_may_have_both_names(client):
    limits = {"max_tokens": 2, "max_completion_tokens": 2}
    result = client.chat.completions.create(model="chatter", messages=QUESTION, **limits)
    assert result.usage.completion_tokens == 2


def test_errors_about_nothing_that_was_sent_name_no_field():
    for error in (InputError("options rule out every token"), InputError("the text is wrong")):
        with pytest.raises(RefusedError) as caught, naming({"text"}, "prompt"):
            raise error
        assert caught.value.param is None
    for other in (BundleError("a bundle is broken"), EngineError("a run failed")):
        with pytest.raises(type(other)), naming({"text"}, "prompt"):
            raise other


def test_a_named_field_shows_no_folder(tmp_path):
    with pytest.raises(RefusedError) as caught, naming((), "prompt"):
        raise InputError(f"a prompt is not for {tmp_path}")
    refusal = refusal_of(caught.value, {tmp_path: "one"})
    assert (str(refusal), refusal.param) == ("a prompt is not for one", "prompt")
