"""A conversation becomes the prompt that transformers makes of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.bundle_edits import relist
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import get_json_schema

from txexport.errors import BundleError, InputError
from txexport.exporter import export
from txexport.runtime import load
from txexport.runtime.preprocessing import chat

TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "llama": "{{ bos_token }}{% for m in messages %}\n"
    "  {% if m.role == 'system' %}{% continue %}{% endif %}\n"
    "  {%- if m.role == 'user' %}[INST] {{ m.content | trim }} [/INST]"
    "{% else %}{{ m.content }}{{ eos_token }}{% endif %}\n{% endfor %}",
    "tools": "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{{ messages | tojson }}",
    "calls": "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}"
    "{% endfor %}{{ m.content }}{% endfor %}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
    "{{ loop.index0 }}{{ ns.n }}{{ m['content'][::-1] }}{% endfor %}",
}
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Wo ist <die> Katze? 猫 & 'x' "},
    {"role": "assistant", "content": "On the mat."},
    {"role": "user", "content": "And the dog?"},
]


def look(where: str, times: int = 1) -> str:
    """
    Look around.

    Args:
        where: The place, as "<mat>".
        times: How often.
    """


TOOLS = [get_json_schema(look)]
CALL = {"type": "function", "function": {"name": "look", "arguments": {"where": "<Käse>", "times": 2}}}
CALLED = [
    {"role": "user", "content": "Is it there?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "name": "look", "content": "a cat"},
]


def prompt(folder: Path, messages, **options) -> str:
    return chat.prompt(folder, chat.Conversation(messages, **options))


@pytest.fixture
def bundle(bundle_of, tmp_path):
    """A function from a template to a bundle that has it, and transformers' tokenizer with it."""

    def make(template: str | dict[str, str], as_file: bool = False):
        folder = tmp_path / "bundle"
        shutil.copytree(bundle_of("gpt2", "static"), folder)
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_file(str(folder / "tokenizer.json")),
            bos_token="<s>",
            eos_token="</s>",
        )
        tokenizer.chat_template = template
        settings = {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}
        if as_file:
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        elif isinstance(template, str):
            settings["chat_template"] = template
        else:
            settings["chat_template"] = [{"name": k, "template": v} for k, v in template.items()]
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return relist(folder), tokenizer

    return make


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_prompt_is_transformers(name, as_file, bundle):
    folder, tokenizer = bundle(TEMPLATES[name], as_file)
    expected = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert prompt(folder, MESSAGES) == expected


@pytest.mark.parametrize("name", ["tools", "calls"])
def test_tools_and_calls_are_put_as_transformers_puts_them(name, bundle):
    """The functions themselves there, their schemas here; a call and its result are messages."""
    folder, tokenizer = bundle(TEMPLATES[name])
    for messages in (MESSAGES, CALLED):
        for tools, schemas in ((None, None), ([], []), ([look], TOOLS)):
            expected = tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=True
            )
            assert prompt(folder, messages, tools=schemas) == expected
    assert "look" in expected


def test_template_for_tools_is_taken_where_there_are_tools(bundle):
    templates = {"default": "none", "tool_use": "{{ tools | length }}"}
    folder, tokenizer = bundle(templates)
    for tools in (None, TOOLS):
        expected = tokenizer.apply_chat_template(MESSAGES, tools=tools, tokenize=False)
        assert prompt(folder, MESSAGES, tools=tools) == expected == ("none" if tools is None else "1")


NAMED = {
    "default": "d{{ messages | length }}",
    "tool_use": "t{{ tools | length }}",
    "rag": "r{% for d in documents %}{{ d.title }}{% endfor %}{{ messages[0].content }}",
}


@pytest.mark.parametrize("as_files", [False, True])
def test_templates_by_name(as_files, bundle, checkpoint_of, tmp_path):
    """In files as transformers writes them, or in its older list; and the bundle of a checkpoint has them."""
    folder, tokenizer = bundle(NAMED)
    if as_files:
        source = shutil.copytree(checkpoint_of("gpt2"), tmp_path / "in")
        tokenizer.save_pretrained(source)
        assert (source / "additional_chat_templates/rag.jinja").is_file()
        folder = tmp_path / "out"
        export(source, folder, only="native")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(source)
    documents = [{"title": "<a>"}, {"title": "b"}]
    for name, more in ((None, {}), ("default", {}), ("rag", {"documents": documents})):
        expected = tokenizer.apply_chat_template(MESSAGES, chat_template=name, tokenize=False, **more)
        assert prompt(folder, MESSAGES, template=name, template_kwargs=more) == expected
    assert prompt(folder, MESSAGES, tools=TOOLS) == "t1"
    assert prompt(folder, MESSAGES, tools=TOOLS, template="tool_use") == "t1"
    with pytest.raises(InputError, match=r"chat_template is 'other', expected the name of one .*'rag'"):
        prompt(folder, MESSAGES, template="other")
    model = load(folder, device="cpu", threads=1)
    answers = {
        name: model.chat(MESSAGES, chat_template=name, chat_template_kwargs=more, max_new_tokens=3)
        for name, more in ((None, {}), ("rag", {"documents": documents}))
    }
    assert answers["rag"] == answer_to(model, expected) != answers[None]


def test_a_changed_template_of_several_is_no_longer_the_bundle(checkpoint_of, tmp_path):
    source = shutil.copytree(checkpoint_of("gpt2"), tmp_path / "in")
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates/rag.jinja").write_text("r")
    export(source, tmp_path / "out", only="native")
    assert prompt(tmp_path / "out", MESSAGES, template="rag") == "r"
    with pytest.raises(
        BundleError, match="has no default chat template; say which with chat_template: 'rag'"
    ):
        prompt(tmp_path / "out", MESSAGES)
    added = tmp_path / "out/additional_chat_templates/more.jinja"
    added.write_text("m")
    with pytest.raises(BundleError, match=r"more\.jinja is not part of this export, but would be read"):
        load(tmp_path / "out", device="cpu")


THINKING = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
    "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{% endif %}"
)


def test_values_for_a_template(bundle):
    """enable_thinking as Qwen3's has it, by the argument's name in servers of OpenAI's kind."""
    folder, tokenizer = bundle(THINKING)
    prompts = set()
    for values in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
        expected = tokenizer.apply_chat_template(
            MESSAGES, tokenize=False, add_generation_prompt=True, **values
        )
        assert prompt(folder, MESSAGES, template_kwargs=values) == expected
        prompts.add(expected)
    assert len(prompts) == 2
    last, off = MESSAGES[3:], {"chat_template_kwargs": {"enable_thinking": False}, "max_new_tokens": 3}
    text = tokenizer.apply_chat_template(
        last, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    model = load(folder, device="cpu", threads=1)
    assert model.chat(last, **off) == "".join(model.stream_chat(last, **off)) == answer_to(model, text)


def answer_to(model, text: str) -> str:
    """Three tokens for a prompt that is text already."""
    ids = model.text.tokenizer.encode(text, add_special_tokens=False).ids
    return model.text.decode(model.generate_ids([ids], max_new_tokens=3))[0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"thinking": 1},
            "chat template refuses: it reads no 'thinking', which chat_template_kwargs has; leave",
        ),
        ({"messages": []}, "chat_template_kwargs has 'messages', which another argument sets; leave it out"),
        ([1], r"chat_template_kwargs are \[1\], expected values by name"),
        ({1: 2}, r"chat_template_kwargs are {1: 2}, expected values by name"),
    ],
)
def test_values_that_a_template_does_not_take(values, message, bundle):
    folder, _ = bundle(THINKING)
    with pytest.raises(InputError, match=message):
        prompt(folder, MESSAGES, template_kwargs=values)


BEGUN = [*MESSAGES, {"role": "assistant", "content": "The dog is on "}]
PARTS = [{"type": "text", "text": "The dog"}, {"type": "text", "text": "is on "}, {"type": "image"}]
OF_PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}|{% endfor %}{% endfor %}"


# transformers refuses one that does not name the content itself, as "tools".
@pytest.mark.parametrize("name", ["chatml", "llama", "calls", "namespace", "parts"])
def test_an_answer_that_has_begun_goes_on(name, bundle):
    messages = [{"role": "assistant", "content": PARTS}] if name == "parts" else BEGUN
    folder, tokenizer = bundle(OF_PARTS if name == "parts" else TEMPLATES[name])
    if name == "namespace":
        with pytest.raises(
            InputError, match="template leaves out the last message, which was to be continued"
        ):
            prompt(folder, messages, continues=True)
        return
    for last in (messages, [*messages[:-1], messages[-1] | {"content": "x"}]):
        if name != "parts" or last is messages:
            expected = tokenizer.apply_chat_template(last, tokenize=False, continue_final_message=True)
            assert prompt(folder, last, continues=True) == expected


THOUGHTS = "{% for m in messages %}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.content }};{% endfor %}"


@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning", "content"])
@pytest.mark.parametrize("field", ["reasoning_content", "thinking", "content"])
def test_what_was_thought_goes_on(key, field, bundle):
    """Reasoning has several names, and the one that goes on may be any that the template reads."""
    folder, tokenizer = bundle(THOUGHTS)
    messages = [MESSAGES[1], {"role": "assistant", key: "It is near. "}]
    try:
        expected = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=field)
    except ValueError:
        with pytest.raises(InputError, match="the last message has no"):
            prompt(folder, messages, continues=field)
    else:
        assert prompt(folder, messages, continues=field) == expected


@pytest.mark.parametrize("value", [None, 1, "", 0.0, ["content"]])
def test_what_is_no_part_of_a_message_does_not_go_on(value, bundle):
    folder, _ = bundle(THOUGHTS)
    with pytest.raises(InputError, match=r"continue_final_message is .*, expected True, False or the key of"):
        prompt(folder, BEGUN, continues=value)


class Said:
    """A message as the client of OpenAI's API has it: an object, which a template must not call."""

    def __init__(self, **values):
        self.values = values

    def model_dump(self):
        return self.values

    def erase(self):
        raise AssertionError("called")


def test_objects_are_messages_of_plain_values(bundle):
    """As of OpenAI's client; what else a message holds is its type's name, and no message is changed."""
    folder, _ = bundle(
        "{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.x }}{{ m.erase is defined }};{% endfor %}"
    )
    held = {"role": "user", "content": "hi", "x": Said}
    messages = [Said(role="assistant", content=None, x=np.float32(0.5)), held, held | {"x": np.zeros(3)}]
    assert prompt(folder, messages) == "assistant0.5False;userhi<type>False;userhi<ndarray>False;"
    assert held == {"role": "user", "content": "hi", "x": Said}
    deep = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InputError, match="lists within lists deeper than 100"):
        prompt(folder, [{"role": "user", "content": deep}])


def test_no_message_is_refused(bundle):
    folder, _ = bundle(THOUGHTS)
    with pytest.raises(InputError, match="there are no messages, expected at least one"):
        prompt(folder, [])


def test_documents_are_objects(bundle):
    folder, _ = bundle("{{ documents }}")
    with pytest.raises(InputError, match=r"documents are .*, expected a list of"):
        prompt(folder, MESSAGES, template_kwargs={"documents": ["a text"]})


def test_the_model_goes_on_with_it(bundle):
    folder, tokenizer = bundle(TEMPLATES["llama"])
    text = tokenizer.apply_chat_template(BEGUN[3:], tokenize=False, continue_final_message=True)
    assert text.endswith("The dog is on ")
    model = load(folder, device="cpu", threads=1)
    options = {"continue_final_message": True, "max_new_tokens": 3}
    expected = answer_to(model, text)
    assert model.chat(BEGUN[3:], **options) == expected != model.chat(BEGUN[3:], max_new_tokens=3)
    assert "".join(model.stream_chat(BEGUN[3:], **options)) == expected


@pytest.mark.parametrize(
    "messages", [[], [{"role": "user"}], [{"role": "user", "content": [{"type": "image"}]}]]
)
def test_nothing_to_go_on_is_refused(messages, bundle):
    folder, _ = bundle(TEMPLATES["chatml"])
    with pytest.raises(
        InputError, match="the last message has no text that continue_final_message could continue"
    ):
        prompt(folder, messages, continues=True)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (
            TOOLS,
            "the checkpoint's chat template refuses: it reads no tools, so that the model would not know",
        ),
        (look, r'tools are <function look.*, expected a list of {"type": "function", "function": {...}}$'),
        (
            [look],
            r'tools are \[<function look.*, expected a list of {"type": "function", "function": {...}}$',
        ),
    ],
)
def test_tools_that_would_not_reach_the_model_are_refused(tools, message, bundle):
    folder, _ = bundle(TEMPLATES["chatml"])
    assert prompt(folder, MESSAGES, tools=[])
    with pytest.raises(InputError, match=f"^{message}"):
        prompt(folder, MESSAGES, tools=tools)


def test_answer_follows_the_prompt(bundle):
    folder, tokenizer = bundle(TEMPLATES["llama"])
    model = load(folder, device="cpu", threads=1)
    text = tokenizer.apply_chat_template(MESSAGES[3:], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    expected = model.text.decode(model.generate_ids([ids], max_new_tokens=4))[0]
    assert model.chat(MESSAGES[3:], max_new_tokens=4) == expected
    assert "".join(model.stream_chat(MESSAGES[3:], max_new_tokens=4)) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user"}, "messages[1].content is None, expected a text or a list of parts"),
        ({"role": "user", "content": 5}, "messages[1].content is 5, expected a text or a list of parts"),
        ({"role": "user", "content": {"a": 1}}, "messages[1].content is {'a': 1}, expected a text or a list"),
        ({"role": "assistant", "content": None}, "messages[1].content is None, expected a text or a list"),
        ({"content": "Hi"}, 'messages[1].role is None, expected a text such as "user"'),
        ({"role": 5, "content": "Hi"}, 'messages[1].role is 5, expected a text such as "user"'),
        (7, 'expected a list of {"role": ..., "content": ...}'),
        ({"role": "user", "content": "a" * 30 + "\ud800"}, "a text is not valid Unicode: 'aaaa"),
        ({"role": "user", "content": [{"type": "text", "text": "\ud800"}]}, "is not valid Unicode: "),
    ],
)
def test_messages_that_say_nothing_are_refused(message, expected, bundle):
    """A template would write None, or nothing."""
    model = load(bundle(TEMPLATES["tools"])[0], device="cpu", threads=1)
    with pytest.raises(InputError) as caught:
        model.chat([MESSAGES[1], message], max_new_tokens=1)
    assert expected in str(caught.value)
    assert str(caught.value).isprintable()


def test_calls_and_their_results_need_no_text(bundle):
    template = "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}"
    model = load(bundle(template)[0], device="cpu", threads=1)
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "name": "look", "content": {"animals": 1}}
    thought = {"role": "assistant", "reasoning_content": "A cat."}
    for messages in ([called, result], [thought]):
        assert isinstance(model.chat(messages, max_new_tokens=1), str)


def test_answer_follows_the_tools(bundle):
    folder, tokenizer = bundle(TEMPLATES["calls"])
    model = load(folder, device="cpu", threads=1)
    messages = [{"role": "user", "content": "?"}]
    ids = tokenizer.apply_chat_template(messages, tools=TOOLS, add_generation_prompt=True).input_ids
    expected = model.text.decode(model.generate_ids([ids], max_new_tokens=4))[0]
    assert model.chat(messages, tools=TOOLS, max_new_tokens=4) == expected
    assert "".join(model.stream_chat(messages, tools=TOOLS, max_new_tokens=4)) == expected
    assert model.chat(messages, max_new_tokens=4) != expected


def test_what_a_template_refuses_is_one_line(bundle):
    folder, _ = bundle("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InputError, match="chat template refuses: roles must alternate"):
        prompt(folder, MESSAGES)


def test_template_may_not_reach_outside(bundle):
    folder, _ = bundle("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(InputError, match="refuses"):
        prompt(folder, MESSAGES)


def test_bundle_without_template_says_so(bundle_of):
    with pytest.raises(BundleError, match="has no chat template"):
        prompt(bundle_of("gpt2", "static"), MESSAGES)


def test_a_bundle_that_was_named_from_elsewhere_keeps_its_template(bundle, monkeypatch):
    """Its files are read when they are asked for, and the process may be in another folder by then."""
    out, _ = bundle("{{ messages[0].content }}")
    monkeypatch.chdir(out.parent)
    model = load(out.name, device="cpu")
    expected = load(out, device="cpu").chat(MESSAGES[:1], max_new_tokens=2)
    monkeypatch.chdir("/")
    assert model.chat(MESSAGES[:1], max_new_tokens=2) == expected
