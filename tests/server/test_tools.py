"""Calls of functions reach OpenAI's client as such, in each format that published templates write."""

import json
import shutil

import openai
import pytest
from helpers.project import ROOT
from helpers.serving import running
from helpers.stand_ins import MESSAGES, TEMPLATE, TOOL, assistant

from txexport import export, load
from txexport.runtime.preprocessing.text import Text
from txexport.server.tool_calls import Call, CallFormat, CallReader, Form, call_format

ARGUMENTS = {"number": "eighty-one"}
FUNCTION = {"name": "in_french", "arguments": ARGUMENTS}
QUESTION, _, RESULT, ANSWER = MESSAGES
CONVERSATION = [
    QUESTION,
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [{"type": "function", "function": FUNCTION}],
    },
    RESULT,
    ANSWER,
]
NAME, VALUES = '"{{ c.function.name }}"', "{{ c.function.arguments | tojson }}"
# The text of a call in a template, and the special tokens in it.
WRITTEN = {
    Form.TAGS: (f'\n<tool_call>\n{{"name": {NAME}, "arguments": {VALUES}}}\n</tool_call>', ()),
    Form.OBJECT: (f'{{"name": {NAME}, "parameters": {VALUES}}}', ()),
    Form.MARK: (f"[TOOL_CALLS]{NAME[1:-1]}[ARGS]{VALUES}", ("[TOOL_CALLS]", "[ARGS]")),
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A bundle for each format, called after it; a model of the second writes no other text beside a call."""
    root = tmp_path_factory.mktemp("tools")
    for form, (written, marks) in WRITTEN.items():
        calls = f"{{% for c in m.tool_calls or [] %}}{written}{{% endfor %}}"
        content = "" if form is Form.OBJECT else "{{ m.content or '' }}"
        text = f"{{% if m.tool_calls %}}{content}{calls}{{% else %}}{{{{ m.content }}}}{{% endif %}}"
        assistant(root / "checkpoint", CONVERSATION, TEMPLATE.replace("{{ m.content }}", text), marks)
        export(root / "checkpoint", root / form.value, only="native")
        shutil.rmtree(root / "checkpoint")
    return root


@pytest.fixture(scope="module")
def client(bundles):
    with running({form.value: bundles / form.value for form in Form}) as (address, _):
        yield openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)


@pytest.mark.parametrize("form", Form)
def test_a_call_is_answered_whole_and_in_pieces(form, client):
    body = {"model": form.value, "messages": [QUESTION], "tools": [TOOL], "max_tokens": 99}
    choice = client.chat.completions.create(**body).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == (None if form is Form.OBJECT else "Let me see.")
    [call] = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "in_french")
    assert json.loads(call.function.arguments) == ARGUMENTS
    pieces = [chunk.choices[0] for chunk in client.chat.completions.create(**body, stream=True)]
    assert "".join(one.delta.content or "" for one in pieces) == (choice.message.content or "")
    [[delta]] = [one.delta.tool_calls for one in pieces if one.delta.tool_calls]
    assert (delta.index, delta.function) == (0, type(delta.function)(**call.function.model_dump()))
    assert pieces[-1].finish_reason == "tool_calls"
    # The result of the call, and so the end of the conversation.
    result = {**RESULT, "tool_call_id": call.id}
    messages = [QUESTION, choice.message.model_dump(exclude_none=True), result]
    final = client.chat.completions.create(**body | {"messages": messages}).choices[0]
    assert (final.message.content, final.message.tool_calls) == (ANSWER["content"], None)
    assert final.finish_reason == "stop"


@pytest.mark.parametrize("form", Form)
def test_a_call_that_is_cut_off_is_text(form, client, bundles):
    with load(bundles / form.value, device="cpu") as model:
        expected = model.chat([QUESTION], tools=[TOOL], max_new_tokens=12)
    body = {"model": form.value, "messages": [QUESTION], "tools": [TOOL], "max_tokens": 12}
    choice = client.chat.completions.create(**body).choices[0]
    assert (choice.message.tool_calls, choice.finish_reason) == (None, "length")
    assert choice.message.content == expected
    pieces = [
        chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**body, stream=True)
    ]
    assert "".join(pieces) == expected


def test_without_functions_nothing_is_a_call(client):
    body = {"model": "tags", "messages": [QUESTION], "max_tokens": 5, "tools": [TOOL]}
    answer = client.chat.completions.create(**body, tool_choice="none").choices[0].message
    assert answer.tool_calls is None


TWO = [Call("a", '{"x": 1}'), Call("b", "{}")]
TAGS = '<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>'
LIST = '[{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]'
READ = [
    (Form.TAGS, f"Hm. \n{TAGS}\n<tool_call>{{\"name\": \"b\"}}</tool_call>\n", ["Hm.", *TWO]),
    (Form.TAGS, f"{TAGS} so", [TWO[0], "so"]),
    (Form.TAGS, TAGS[: -len("</tool_call>")], TWO[:1]),  # a model may end without the closing tag
    (Form.TAGS, " a < b <tool_cal \n", [" a < b <tool_cal \n"]),
    (Form.TAGS, "<tool_call>no</tool_call> ", ["<tool_call>no</tool_call> "]),
    (Form.TAGS, '<tool_call>{"name": "a", "x": NaN}', ['<tool_call>{"name": "a", "x": NaN}']),
    (Form.TAGS, '<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', TWO[:1]),
    (Form.OBJECT, '\n{"name": "a", "parameters": {"x": 1}}; {"name": "b", "parameters": {}}', TWO),
    (Form.OBJECT, '{"name": "c", "parameters": {}}', ['{"name": "c", "parameters": {}}']),  # no function
    (Form.OBJECT, '{"name": "a", "parameters": {}} is one', ['{"name": "a", "parameters": {}} is one']),
    (Form.OBJECT, 'As {"name": "a", "parameters": {}}', ['As {"name": "a", "parameters": {}}']),
    (Form.MARK, f"[TOOL_CALLS] {LIST}", TWO),
    (Form.MARK, 'So [TOOL_CALLS]a[CALL_ID]q1[ARGS]{"x": 1}[TOOL_CALLS]b[ARGS]{}', ["So", *TWO]),
    (Form.MARK, "[TOOL_CALLS]a[ARGS]{x} ", ["a[ARGS]{x} "]),  # without the token that texts do not show
    (Form.MARK, LIST, [LIST]),
    (Form.TAGS, "", []),
]  # fmt: skip


@pytest.mark.parametrize(("form", "text", "expected"), READ)
def test_calls_are_separated_from_text_however_it_is_cut(form, text, expected):
    for size in (1, 3, 1000):
        reader = CallReader(CallFormat(form, {7: "[TOOL_CALLS]"}), frozenset("ab"))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        parts: list[str | Call] = []
        for part in [*(one for piece in pieces for one in reader.add(piece)), *reader.end()]:
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
        assert parts == expected, size


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("qwen25", Form.TAGS),
        ("llama31", Form.OBJECT),
        ("mistral3", Form.MARK),
        ("glm", None),
        ("falcon", None),
    ],
)
def test_the_format_is_that_of_the_template(name, form, tmp_path):
    """GLM writes <tool_call>, too, but no JSON in it."""
    shutil.copy(ROOT / f"tests/data/chat_templates/{name}.jinja", tmp_path / "chat_template.jinja")
    shutil.copy(ROOT / "models/pretrained/python-completer/tokenizer.json", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
    result = call_format(tmp_path, Text(tmp_path))
    assert (None if result is None else result.form) == form
