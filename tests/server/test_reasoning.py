"""reasoning_effort reaches the chat templates that know it, by the names they read."""

import shutil
from types import SimpleNamespace

import pytest
from helpers.project import ROOT
from transformers import AutoTokenizer

from txexport.runtime.preprocessing.chat import Conversation, prompt
from txexport.server.reasoning import with_effort
from txexport.server.refusals import RefusedError

QUESTION = [{"role": "user", "content": "Hello?"}]


@pytest.fixture
def served(tmp_path):
    """A function from a published template's name to a stand-in for a bundle with it."""

    def get(name):
        shutil.copy(ROOT / f"tests/data/chat_templates/{name}.jinja", tmp_path / "chat_template.jinja")
        shutil.copy(ROOT / "models/pretrained/python-completer/tokenizer.json", tmp_path)
        (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')
        files = SimpleNamespace(folder=tmp_path)
        return SimpleNamespace(name=name, model=SimpleNamespace(bundle=SimpleNamespace(files=files)))

    return get


@pytest.mark.parametrize(
    ("name", "effort", "values"),
    [
        ("gpt_oss", "low", {"reasoning_effort": "low"}),
        ("gpt_oss", "high", {"reasoning_effort": "high"}),
        ("qwen3", "none", {"enable_thinking": False}),
        ("qwen3", "medium", {"enable_thinking": True}),
        ("smollm3", "none", {"enable_thinking": False}),
    ],
)
def test_the_prompt_is_that_of_transformers(name, effort, values, served):
    bundle = served(name)
    folder = bundle.model.bundle.files.folder
    chosen = with_effort(bundle, {"reasoning_effort": effort})
    assert chosen == values
    text = prompt(folder, Conversation(QUESTION, template_kwargs=chosen))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options = {"tokenize": False, "add_generation_prompt": True}
    assert text == tokenizer.apply_chat_template(QUESTION, **options, **values)
    if (name, effort) != ("qwen3", "medium"):  # the template's default
        assert text != tokenizer.apply_chat_template(QUESTION, **options)


def test_a_template_without_such_a_value_is_named(served):
    with pytest.raises(RefusedError, match="reasoning_effort needs a chat template that reads one of"):
        with_effort(served("llama31"), {"reasoning_effort": "low"})
    assert with_effort(served("llama31"), {}) == {}


def test_a_value_is_set_once(served):
    body = {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}
    with pytest.raises(RefusedError, match="reasoning_effort sets enable_thinking, which chat_template_kw"):
        with_effort(served("qwen3"), body)
