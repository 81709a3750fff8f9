"""verify holds a bundle's chat templates to transformers' over seeded conversations."""

import json
import shutil

import pytest

from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime.preprocessing import chat_messages, sandbox_values
from txexport.runtime.preprocessing.chat import UNREAD
from txexport.verification import processors, verify
from txexport.verification.checks import CHAT_TEMPLATE
from txexport.verification.processors import conversations

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.arguments | tojson }}{% endfor %}{{ m.reasoning_content }}{% endfor %}{{ tools | tojson }}"
    "{% if m %}{% endif %}{% generation %}{{ documents }}{% endgeneration %}{{ strftime_now('%Y') }}"
)


@pytest.fixture
def report(checkpoint_of, tmp_path):
    """A function from a template, or several by name, to what verify says of it in a bundle."""

    def get(template: str | list | None, cases: list[str] | str | None = None, **settings):
        source = shutil.copytree(checkpoint_of("gpt2"), tmp_path / "in")
        if template is not None:
            named = {"tokenizer_class": "GPT2Tokenizer", "chat_template": template, **settings}
            (source / "tokenizer_config.json").write_text(json.dumps(named))
        export(source, tmp_path / "out", only="native")
        return verify(tmp_path / "out", cases=cases or [CHAT_TEMPLATE])

    return get


def case_of(report):
    [case] = [case for case in report.cases if case.name == CHAT_TEMPLATE]
    return case


def test_prompts_are_counted(report):
    found = report(TEMPLATE)
    assert found.ok
    [check] = case_of(found).checks
    assert check.output == "prompts of default"
    assert check.elements == len(conversations.usual())


def test_full_cases_try_any_conversations(report, monkeypatch):
    tried = []
    monkeypatch.setattr(
        processors.chat, "prompt", lambda folder, name, asked: tried.append(asked.name) or InputError(UNREAD)
    )
    report(TEMPLATE, cases="full")
    assert len(set(tried)) == len(conversations.usual()) + 200


def test_each_of_several_templates_is_tried(report):
    named = [{"name": name, "template": f"{name}{TEMPLATE}"} for name in ("default", "rag", "tool_use")]
    found = report(named)
    assert found.ok
    assert [check.output for check in case_of(found).checks] == [
        "prompts of default",
        "prompts of rag",
        "prompts of tool_use",
    ]


def test_quick_cases_try_fewer(report):
    found = report(TEMPLATE, cases="quick")
    assert found.ok
    assert case_of(found).checks[0].elements == len(conversations.usual())


def test_no_template_is_said(report):
    found = report(None)
    assert case_of(found).skipped == "no chat template there"


def test_a_template_that_nobody_can_use_is_said(report):
    with pytest.warns(UserWarning, match=r"chat template 'default' cannot be used: .*unknown tag 'nothing'"):
        found = report("{% nothing %}")
    message = "the template 'default' cannot be used, in transformers neither: the checkpoint's chat template"
    assert case_of(found).skipped.startswith(message)


def test_null_content_that_is_written_is_not_equal(report, monkeypatch):
    """As templates were run before: the conversation is named, and where the prompts part."""
    monkeypatch.setattr(
        processors.chat.chat, "messages_of", lambda values: chat_messages.mappings("messages", values, "")
    )
    found = report(TEMPLATE)
    assert not found.ok
    expected = "the template 'default', conversation 'null content': 'None"
    assert expected in case_of(found).summary


def test_a_template_that_transformers_alone_reads_is_not_equal(report, monkeypatch):
    monkeypatch.setattr(sandbox_values.Generation, "tags", set())
    with pytest.warns(UserWarning, match="cannot be used: .*unknown tag 'generation'"):
        found = report(TEMPLATE + " ")
    assert not found.ok
    assert "conversation 'one message'" in case_of(found).summary or "unknown tag" in case_of(found).summary


def test_a_token_of_the_class_that_is_left_out_is_not_equal(report, monkeypatch):
    monkeypatch.setattr(processors.chat.chat, "special_tokens", lambda folder: {})
    found = report(TEMPLATE)
    assert "at character 1, in transformers '|endoftext|>" in case_of(found).summary


def test_the_set_is_the_same_on_every_machine():
    assert conversations.seeded(20) == conversations.seeded(20)
    names = [one.name for one in conversations.usual()]
    assert len(set(names)) == len(names) > 60
