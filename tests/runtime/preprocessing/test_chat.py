"""A conversation becomes the prompt that transformers makes of it."""

import json
import shutil

import pytest
from helpers.bundle_edits import relist
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils import get_json_schema

from txexport.errors import BundleError, InputError
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
    assert chat.prompt(folder, MESSAGES) == expected


@pytest.mark.parametrize("name", ["tools", "calls"])
def test_tools_and_calls_are_put_as_transformers_puts_them(name, bundle):
    """The functions themselves there, their schemas here; a call and its result are messages."""
    folder, tokenizer = bundle(TEMPLATES[name])
    for messages in (MESSAGES, CALLED):
        for tools, schemas in ((None, None), ([], []), ([look], TOOLS)):
            expected = tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=True
            )
            assert chat.prompt(folder, messages, schemas) == expected
    assert "look" in expected


def test_template_for_tools_is_taken_where_there_are_tools(bundle):
    templates = {"default": "none", "tool_use": "{{ tools | length }}"}
    folder, tokenizer = bundle(templates)
    for tools in (None, TOOLS):
        expected = tokenizer.apply_chat_template(MESSAGES, tools=tools, tokenize=False)
        assert chat.prompt(folder, MESSAGES, tools) == expected == ("none" if tools is None else "1")


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (
            TOOLS,
            "the checkpoint's chat template refuses: it reads no tools, so that the model would not know",
        ),
        (look, r'tools are no list of {"type": "function", "function": {...}}, but <function look'),
        ([look], r'tools are no list of {"type": "function", "function": {...}}, but \[<function look'),
    ],
)
def test_tools_that_would_not_reach_the_model_are_refused(tools, message, bundle):
    folder, _ = bundle(TEMPLATES["chatml"])
    assert chat.prompt(folder, MESSAGES, [])
    with pytest.raises(InputError, match=f"^{message}"):
        chat.prompt(folder, MESSAGES, tools)


def test_answer_follows_the_prompt(bundle):
    folder, tokenizer = bundle(TEMPLATES["llama"])
    model = load(folder, device="cpu", threads=1)
    text = tokenizer.apply_chat_template(MESSAGES[3:], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    expected = model.text.decode(model.generate_ids([ids], max_new_tokens=4))[0]
    assert model.chat(MESSAGES[3:], max_new_tokens=4) == expected
    assert "".join(model.stream_chat(MESSAGES[3:], max_new_tokens=4)) == expected


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
        chat.prompt(folder, MESSAGES)


def test_template_may_not_reach_outside(bundle):
    folder, _ = bundle("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(InputError, match="refuses"):
        chat.prompt(folder, MESSAGES)


def test_bundle_without_template_says_so(bundle_of):
    with pytest.raises(BundleError, match="has no chat template"):
        chat.prompt(bundle_of("gpt2", "static"), MESSAGES)


def test_a_bundle_that_was_named_from_elsewhere_keeps_its_template(bundle, monkeypatch):
    """Its files are read when they are asked for, and the process may be in another folder by then."""
    out, _ = bundle("{{ messages[0].content }}")
    monkeypatch.chdir(out.parent)
    model = load(out.name, device="cpu")
    expected = load(out, device="cpu").chat(MESSAGES[:1], max_new_tokens=2)
    monkeypatch.chdir("/")
    assert model.chat(MESSAGES[:1], max_new_tokens=2) == expected
