"""Every chat template gives what transformers' apply_chat_template gives, or fails where that fails."""

import json

import pytest
from helpers.chat_templates import FAMILIES, FEATURES
from helpers.generated_templates import generated
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from txexport.errors import InputError
from txexport.runtime.preprocessing import chat, sandbox
from txexport.verification.processors.conversations import seeded, usual

SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "image_token": "<img>",
    "add_bos_token": True,
    "additional_special_tokens": ["<a>"],
    "pad_token": None,
}
CONVERSATIONS = usual() + seeded(40)


@pytest.fixture(scope="module")
def original():
    """A tokenizer of transformers, whose template each test sets."""
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "<u>": 2}, "<u>"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SETTINGS)


def theirs(tokenizer, asked) -> str | Exception:
    """The text of a conversation by transformers, or its error."""
    options = {"add_generation_prompt": not asked.continues, "continue_final_message": asked.continues}
    try:
        return tokenizer.apply_chat_template(
            asked.messages, tools=asked.tools, tokenize=False, **options, **asked.values
        )
    except Exception as error:
        return error


def ours(folder, asked) -> str | InputError:
    """The text of a conversation by txexport, or its error."""
    conversation = chat.Conversation(
        asked.messages, asked.tools, template_kwargs=asked.values, continues=asked.continues
    )
    try:
        return chat.prompt(folder, conversation)
    except InputError as error:
        return error


def compare(template: str, conversations, folder, tokenizer) -> int:
    """The number of conversations that the template renders; all of them as transformers does."""
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8", newline="")
    tokenizer.chat_template, answered = template, 0
    for asked in conversations:
        expected, found = theirs(tokenizer, asked), ours(folder, asked)
        if isinstance(found, InputError) and " it reads no " in str(found):
            continue  # which transformers lets pass, and the model would not know
        if isinstance(expected, Exception):
            assert isinstance(found, InputError), (asked.name, expected, found)
            assert "\n" not in str(found)
        else:
            assert found == expected, asked.name
            answered += 1
    return answered


@pytest.mark.parametrize("name", FAMILIES)
def test_templates_as_those_of_families(name, tmp_path, original):
    assert compare(FAMILIES[name], CONVERSATIONS, tmp_path, original) > 10


@pytest.mark.parametrize("name", FEATURES)
def test_what_templates_do(name, tmp_path, original):
    compare(FEATURES[name], CONVERSATIONS[::3], tmp_path, original)


@pytest.mark.parametrize("seed", range(4))
def test_templates_by_chance(seed, tmp_path, original):
    """Templates of statements and expressions in any order, of which nobody thought."""
    answered = 0
    for number in range(40):
        answered += compare(
            generated(1000 * seed + number), CONVERSATIONS[number % 17 :: 17], tmp_path, original
        )
    assert answered > 30
    sandbox._code.cache_clear()
