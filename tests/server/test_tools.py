"""Calls of functions reach OpenAI's client as such, in each format that published templates write."""

import json
import shutil
import sys
from dataclasses import replace

import httpx
import llguidance
import openai
import pytest
from helpers.project import ROOT
from helpers.serving import LIMITS, running
from helpers.stand_ins import MESSAGES, TEMPLATE, TOOL, assistant

from txexport import export, load
from txexport.runtime.preprocessing.text import Text
from txexport.server.refusals import RefusedError
from txexport.server.tool_calls import Call, CallFormat, CallReader, Form, call_format
from txexport.server.tool_choice import grammar_of

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
    limits = replace(LIMITS, max_body=200_000)
    with running({form.value: bundles / form.value for form in Form}, limits) as (address, _):
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


def spoken(answer):
    """The functions that an answer calls, with their arguments as objects."""
    calls = answer.message.tool_calls or []
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


OTHER = {
    "type": "function",
    "function": {
        "name": "rest",
        "parameters": {
            "type": "object",
            "properties": {"hours": {"$ref": "#/$defs/hours"}},
            "required": ["hours"],
            "additionalProperties": False,
            "$defs": {"hours": {"type": "integer", "minimum": 1, "maximum": 9}},
        },
    },
}
NAMED = {"type": "function", "function": {"name": "rest"}}
ASIDE = [{"role": "user", "content": "no question"}]  # to which the model has learned no call


@pytest.mark.parametrize("form", Form)
def test_a_call_that_is_demanded_is_made(form, client):
    body = {"model": form.value, "messages": ASIDE, "tools": [TOOL, OTHER], "max_tokens": 150}
    choice = client.chat.completions.create(**body, tool_choice=NAMED).choices[0]
    [(name, arguments)] = spoken(choice)
    assert (name, list(arguments), choice.message.content) == ("rest", ["hours"], None)
    assert arguments["hours"] in range(1, 10)
    assert choice.finish_reason == "tool_calls"
    stream = client.chat.completions.create(**body, tool_choice=NAMED, stream=True)
    [[delta]] = [chunk.choices[0].delta.tool_calls for chunk in stream if chunk.choices[0].delta.tool_calls]
    assert delta.function.arguments == choice.message.tool_calls[0].function.arguments
    body |= {"tools": [OTHER], "tool_choice": "required", "parallel_tool_calls": False}
    [(name, _)] = spoken(client.chat.completions.create(**body).choices[0])
    assert name == "rest"


def test_responses_demand_calls_too(client):
    tools = [{"type": "function", **tool["function"]} for tool in (TOOL, OTHER)]
    response = client.responses.create(
        model="tags", input="no question", tools=tools, tool_choice={"type": "function", "name": "rest"}
    )
    [call] = response.output
    assert (call.type, call.name, list(json.loads(call.arguments))) == ("function_call", "rest", ["hours"])


@pytest.mark.parametrize("form", Form)
def test_responses_have_calls_as_items(form, client):
    """The call, and after its output the end of the conversation; the events name each item."""
    tool = {"type": "function", **TOOL["function"], "strict": True}  # which the model is not told
    body = {"model": form.value, "tools": [tool]}
    items = [QUESTION]
    response = client.responses.create(**body, input=items)
    *texts, call = response.output
    assert (call.type, call.name, response.status) == ("function_call", "in_french", "completed")
    assert json.loads(call.arguments) == ARGUMENTS
    assert response.output_text == ("" if form is Form.OBJECT else "Let me see.")
    assert len(texts) == (form is not Form.OBJECT)
    events = list(client.responses.create(**body, input=items, stream=True))
    items_done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [one.type for one in items_done] == [one.type for one in response.output]
    assert items_done[-1].arguments == call.arguments
    assert events[-1].response.output == items_done
    [arguments] = [e.arguments for e in events if e.type == "response.function_call_arguments.done"]
    assert arguments == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT["content"]}
    final = client.responses.create(**body, input=[*items, *response.output, result])
    assert final.output_text == ANSWER["content"]


LONG = "x" * 15_000
MANY = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"enum": [LONG]}}} for i in range(9)]
REFUSED = [
    ({"tool_choice": "required"}, 'tool_choice is "required", which needs tools'),
    ({"tool_choice": "always"}, 'tool_choice is "always", expected "auto" or "none" or "required" or'),
    ({"tools": [TOOL], "tool_choice": NAMED}, 'expected one of the functions in tools: "in_french"'),
    ({"tools": [{"type": "search"}], "tool_choice": "required"}, "tool_choice needs each of tools as"),
    ({"tools": [TOOL, {"type": "function", "function": {}}]}, 'tools has {"type": "function", "fu'),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "strin"}}}],
         "tool_choice": "required"},
        'the parameters of "f" are no valid JSON schema: Invalid type: strin',
    ),
    (
        {"tools": MANY, "tool_choice": "required"},
        "characters together, expected at most 131,072 with this tool_choice",
    ),
    (
        {"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
        "response_format is not served with a tool_choice that demands a call",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_what_cannot_be_demanded_is_one_line(fields, message, client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tags", messages=[QUESTION], **fields)
    assert message in caught.value.body["message"]
    assert "\n" not in caught.value.body["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_a_missing_package_is_told_once(fields, param, client, monkeypatch):
    """OpenAI's client would otherwise send the request three times."""
    monkeypatch.setitem(sys.modules, "llguidance", None)
    requests = []
    http = httpx.Client(event_hooks={"request": [requests.append]})
    retrying = client.with_options(http_client=http, max_retries=2)
    with pytest.raises(openai.InternalServerError) as caught:
        retrying.chat.completions.create(model="tags", messages=[QUESTION], **fields)
    assert (caught.value.status_code, caught.value.param, len(requests)) == (501, param, 1)
    message = f"{param} needs llguidance, which is not installed on the server"
    assert caught.value.body["message"] == message


LIST, BY_NAME = CallFormat(Form.MARK, {}), CallFormat(Form.MARK, {}, ("[CALL_ID]", "[ARGS]"))
WRITTEN_CALLS = [
    (
        CallFormat(Form.TAGS, {}),
        '<tool_call>\n{"name": "rest", "arguments": {"hours":5}}\n</tool_call>',
        "\n",
    ),
    (CallFormat(Form.OBJECT, {}), '{"name": "rest", "parameters": {"hours":5}}', None),
    (LIST, '[TOOL_CALLS][{"name": "rest", "arguments": {"hours":5}}]', None),
    (BY_NAME, '[TOOL_CALLS]rest[CALL_ID]abcdefgh1[ARGS]{"hours":5}', ""),
]


@pytest.mark.parametrize(("format", "text", "between"), WRITTEN_CALLS)
def test_a_grammar_has_what_the_reader_reads(format, text, between, byte_matches):
    """One call of a function, and several where models were trained on several."""
    functions = [OTHER["function"], {"name": "none"}]
    single, several = (grammar_of(format, functions, several) for several in (False, True))
    assert byte_matches(single, text)
    for wrong in (text.replace("5", "55"), text.replace("rest", "rust"), f"So {text}", text[:-1]):
        assert not byte_matches(several, wrong)
    if between is not None:
        assert byte_matches(several, f"{text}{between}{text}")
        assert not byte_matches(single, f"{text}{between}{text}")
    reader = CallReader(format, frozenset({"rest", "none"}))
    assert [*reader.add(text), *reader.end()] == [Call("rest", '{"hours": 5}')]


@pytest.fixture(scope="module")
def byte_matches():
    """A function from a grammar and a text to whether the text is complete in it."""
    tokenizer = llguidance.LLTokenizer("byte")

    def matches(grammar: str, text: str) -> bool:
        matcher = llguidance.LLMatcher(
            tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0
        )
        read = matcher.try_consume_tokens(list(text.encode()))
        return read == len(text.encode()) and matcher.is_accepting()

    return matches


def test_only_the_first_call_is_returned_where_calls_are_not_parallel():
    for size in (1, 1000):
        reader = CallReader(CallFormat(Form.TAGS, {}), frozenset("ab"), single=True)
        text = f"So {TAGS}\n{TAGS} more"
        parts = [one for at in range(0, len(text), size) for one in reader.add(text[at : at + size])]
        assert [one for one in [*parts, *reader.end()] if isinstance(one, Call)] == TWO[:1]
        assert "".join(one for one in parts if isinstance(one, str)) == "So"


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
    if result is None:
        with pytest.raises(RefusedError, match="is not known, so tool_choice can only be auto or none"):
            grammar_of(result, [OTHER["function"]], several=False)
