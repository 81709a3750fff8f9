"""The chat model's conversations: rendered as by its template, marked where it writes, split by key."""

import json

import chatter
import numpy as np
import pytest
import transformers
from helpers.project import ROOT
from tokenizers import Tokenizer

FOLDER = ROOT / "models/pretrained/chatter"


@pytest.fixture(scope="module")
def conversations():
    return [chatter.compose(np.random.default_rng([0, step]), 1500) for step in range(150)]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def test_conversations_are_rendered_as_by_transformers(conversations):
    original = transformers.AutoTokenizer.from_pretrained(FOLDER)
    for messages, tools in conversations[:40]:
        text = original.apply_chat_template(messages, tools=tools or None, tokenize=False)
        assert chatter.render(chatter.Conversation(messages, tools)) == text


def test_the_loss_is_of_what_the_assistant_writes(conversations, tokenizer):
    for conversation in conversations[:40]:
        ids = np.array([tokenizer.encode(chatter.render(conversation), add_special_tokens=False).ids])
        marks = chatter.written(tokenizer, ids)
        text = tokenizer.decode(ids[marks == 1].tolist(), skip_special_tokens=False)
        turns = [message for message in conversation.messages if message["role"] == "assistant"]
        assert text.count("<|im_end|>") == len(turns)
        assert [part for part in text.split("<|im_end|>")[:-1] if "<tool_call>" not in part] == [
            message["content"] for message in turns if not message.get("tool_calls")
        ]


def plain(question: str) -> str:
    """A question without the changes that training makes to it."""
    return question.lower().removeprefix("please: ").rstrip("?.!")


def test_nothing_held_out_is_in_the_training_data(conversations):
    """A question alone, or a call of a function with a value."""
    lines = [json.loads(line) for line in (FOLDER / "heldout.jsonl").read_text(encoding="utf-8").splitlines()]
    questions = {
        plain(one["messages"][0]["content"])
        for one in lines
        if len(one["messages"]) == 1 and not one["tools"]
    }
    calls = {one["answer"] for one in lines if one["kind"] == "calls"}
    assert len(questions) > 40
    assert len(calls) > 80
    for conversation in conversations:
        users = {plain(message["content"]) for message in conversation.messages if message["role"] == "user"}
        assert not questions & users
        rendered = chatter.render(conversation)
        assert [call for call in calls if call in rendered] == []


def test_one_key_in_twelve_is_held_out():
    turns = [turn for seed in range(3000) for turn in chatter._talk.turns(np.random.default_rng(seed))]
    keys = {turn.key for turn in turns if turn.key}
    held = [key for key in keys if chatter._talk.held_out(chatter._talk.Turn("", "", key))]
    assert 0.06 < len(held) / len(keys) < 0.11
