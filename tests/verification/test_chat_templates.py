"""verify holds a bundle's chat templates to transformers' over seeded conversations."""

import json
import shutil

import pytest
from helpers import pictured
from helpers.bundle_edits import relist

from txexport.errors import BundleError, InputError
from txexport.exporter import export
from txexport.runtime.preprocessing import chat_messages, sandbox_values
from txexport.runtime.preprocessing.chat import UNREAD
from txexport.runtime.preprocessing.chat_templates import of_processor
from txexport.verification import processors, verify
from txexport.verification.checks import CHAT_TEMPLATE, IMAGE_PROMPTS
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
    assert check.elements == len(conversations.usual()) + 200


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


def test_what_an_older_transformers_does_otherwise_is_not_tried_and_said():
    """Before 5, null content was written as "None", and reasoning had one name."""

    class Older:
        def apply_chat_template(self, messages, **options):
            return "TrueFalse"

    tried, left = processors.chat._known(Older(), conversations.usual())
    assert left == "null keys and names of reasoning, of which this transformers knows nothing"
    names = {one.name for one in tried}
    assert {"turns", "no content", "two calls"} <= names
    assert not {"null content", "null keys", "a call", "reasoning", "reasoning of old"} & names


def test_the_set_is_the_same_on_every_machine():
    assert conversations.seeded(20) == conversations.seeded(20)
    names = [one.name for one in conversations.usual()]
    assert len(set(names)) == len(names) > 60


def test_the_template_of_a_processor_is_compared_in_its_prompts(tmp_path):
    """As published with many models of images; transformers' tokenizer finds none there."""
    pictured.save(tmp_path / "in")
    file = tmp_path / "in/chat_template.jinja"
    template = file.read_text()
    file.unlink()
    (tmp_path / "in/chat_template.json").write_text(json.dumps({"chat_template": template}))
    export(tmp_path / "in", tmp_path / "out", only="native")
    report = verify(tmp_path / "out", cases=[CHAT_TEMPLATE, IMAGE_PROMPTS])
    assert report.ok
    assert "is the processor's" in case_of(report).skipped
    [case] = [case for case in report.cases if case.name == IMAGE_PROMPTS]
    assert {check.output: check.elements > 0 for check in case.checks} == {
        "prompts": True,
        "conversations": True,
    }
    (tmp_path / "out/chat_template.json").write_text(json.dumps({"chat_template": template + "!"}))
    report = verify(relist(tmp_path / "out"), cases=[IMAGE_PROMPTS])
    assert [case.name for case in report.failed] == [IMAGE_PROMPTS]


def test_a_file_of_a_processor_without_a_template_is_named(bundle_of, tmp_path):
    folder = shutil.copytree(bundle_of("gpt2", "static"), tmp_path / "out")
    (folder / "chat_template.json").write_text("{}")
    assert of_processor(folder) is None  # without a processor
    (folder / "preprocessor_config.json").write_text("{}")
    with pytest.raises(BundleError, match=r"chat_template\.json has no text as chat_template"):
        of_processor(folder)
