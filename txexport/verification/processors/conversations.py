"""A seeded set of conversations: usual requests of clients, and unusual ones that break templates."""

import random
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]

ROLES = ("system", "user", "assistant", "tool", "developer")
TEXTS = (
    "Hello.",
    "",
    " Two  spaces \n",
    "Wo ist <die> Katze? 猫 & 'x' \"y\"",
    "def f(x):\n    return {x: [1]}\n",
    "👩‍🔬 e\u0301 \u202eabc\u202c \x00\t",
    "<|im_start|>system\n<s>[INST] {{ messages }} {% raw %} </s>",
    "<think>\nFirst, one.\n</think>\n\nThen two.",
    "<tool_response>\n7\n</tool_response>",
    "None",
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "where": {"type": "string", "description": 'The place, as "<mat>".'},
        "times": {"type": "integer", "default": 1, "nullable": True},
        "sort": {"type": "string", "enum": ["up", "down"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object", "properties": {"é": {"type": ["number", "null"]}}},
    },
    "required": ["where"],
}
LOOK = {"name": "look", "description": "Look around.\nTwice.", "parameters": PARAMETERS}
NOW = {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": LOOK}, {"type": "function", "function": NOW}]
DOCUMENTS = [{"title": "<a>", "text": "One."}, {"title": "b", "text": "Zwei\nß"}]
ARGUMENTS: tuple[Any, ...] = ({"where": "<Käse>", "times": 2, "on": True, "x": None}, {}, '{"where": "x"}')


@dataclass(frozen=True)
class ChatCase:
    """A conversation of the set, with tools and other values for its template."""

    name: str
    messages: list[Message]
    tools: list[Message] | None = None
    values: Message = field(default_factory=dict)
    continues: bool | str = False


def call(arguments: Any, number: str = "call00001") -> Message:
    """A call of a tool in the format of OpenAI's API."""
    return {"id": number, "type": "function", "function": {"name": "look", "arguments": arguments}}


def _usual_messages() -> dict[str, list[Message]]:
    """The messages of the usual conversations, by name."""
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": TEXTS[3]}
    answer, more = (
        {"role": "assistant", "content": "On the mat."},
        {"role": "user", "content": "And the dog?"},
    )
    thought = {"role": "assistant", "content": "Here.", "reasoning_content": "It is near."}
    result: Message = {"role": "tool", "name": "look", "content": "a cat", "tool_call_id": "call00001"}
    called: Message = {"role": "assistant", "content": None, "tool_calls": [call(ARGUMENTS[0])]}
    twice: Message = {"role": "assistant", "tool_calls": [call(ARGUMENTS[0]), call({}, "call00002")]}
    parts = [{"type": "text", "text": "One "}, {"type": "text", "text": "two."}]
    rows: dict[str, list[Message]] = {
        f"text {at}": [user | {"content": text}] for at, text in enumerate(TEXTS)
    }
    rows |= {
        "one message": [user],
        "a system": [system, user],
        "turns": [system, user, answer, more],
        "turns without a system": [user, answer, more],
        "two systems": [system, system, user],
        "a system alone": [system],
        "a system at the end": [user, answer, system],
        "a developer": [{"role": "developer", "content": "Be brief."}, user],
        "an assistant first": [answer, user],
        "an assistant last": [user, answer],
        "a user twice": [user, more],
        "a role of its own": [{"role": "critic", "content": "No."}],
        "no content": [user, {"role": "assistant"}, more],
        "null content": [user, {"role": "assistant", "content": None}, more],
        "null keys": [user | {"name": None, "tool_calls": None}, answer | {"tool_calls": None}, more],
        "a null user": [{"role": "user", "content": None}],
        "parts": [{"role": "user", "content": parts}],
        "parts in turns": [{"role": "system", "content": parts}, {"role": "user", "content": parts}, answer],
        "no parts": [{"role": "user", "content": []}],
        "an image": [{"role": "user", "content": [{"type": "image"}, *parts]}],
        "a call": [user, called, result],
        "a call that text goes with": [user, called | {"content": "I look."}, result],
        "a call with arguments as text": [user, called | {"tool_calls": [call(ARGUMENTS[2])]}, result],
        "two calls": [user, twice, result, result | {"content": '{"n": 7}'}],
        "a call before the last answer": [user, called, result, answer, more],
        "a result as an object": [user, called, result | {"content": {"n": [7, "é"]}}],
        "a call of no function": [user, called | {"tool_calls": [call(ARGUMENTS[0])["function"]]}, result],
        "an empty list of calls": [user, answer | {"tool_calls": []}, more],
        "reasoning": [user, thought, more],
        "reasoning of old": [user, answer | {"thinking": "It is near."}, more],
        "reasoning of others": [user, answer | {"reasoning": "It is near."}, more],
        "reasoning before a call": [user, called | {"reasoning_content": "I look."}, result],
        "reasoning in the text": [user, answer | {"content": TEXTS[7]}, more],
        "a name": [user | {"name": "Ann"}, answer],
    }
    return rows


def usual() -> list[ChatCase]:
    """One conversation for each usual request of clients."""
    rows = _usual_messages()
    user, reasoning = rows["one message"], rows["reasoning"]
    conversations = [ChatCase(name, messages) for name, messages in rows.items()]
    for name in ("a system", "turns", "a call", "two calls", "one message", "an assistant last"):
        conversations.append(ChatCase(f"{name}, with tools", rows[name], TOOLS))
    conversations += [
        ChatCase("no tools", user, []),
        ChatCase("bare tools", user, [LOOK]),
    ]
    for name in ("an assistant last", "parts", "reasoning in the text", "one message", "a call", "text 2"):
        conversations.append(ChatCase(f"{name}, which goes on", rows[name], continues=True))
    conversations.append(ChatCase("reasoning that goes on", reasoning[:2], continues="reasoning_content"))
    for value in (True, False):
        for name in ("turns", "reasoning"):
            thinking = {"enable_thinking": value}
            conversations.append(ChatCase(f"{name}, enable_thinking={value}", rows[name], values=thinking))
    conversations.append(ChatCase("documents", rows["a system"], values={"documents": DOCUMENTS}))
    return conversations


def seeded(count: int, seed: int = 0) -> list[ChatCase]:
    """Random conversations, the same for one seed on every machine."""
    draw, conversations = random.Random(seed), []
    for number in range(count):
        messages = [_message(draw) for _ in range(1 + draw.randrange(6))]
        if draw.random() < 0.5:  # half of them in the order that most templates require
            for turn, message in enumerate(messages):
                message["role"] = ("user", "assistant")[turn % 2]
        tools = draw.choice([None, None, TOOLS, TOOLS[1:]])
        values: Message = draw.choice([{}, {}, {"enable_thinking": False}, {"documents": DOCUMENTS}])
        continues = draw.random() < 0.1
        conversations.append(ChatCase(f"seeded {number}", messages, tools, values, continues))
    return conversations


def _message(draw: random.Random) -> Message:
    """A message of any role with content of any kind, and further keys."""
    text = "".join(draw.choice(TEXTS) for _ in range(draw.randrange(3)))
    content = draw.choice([text, text, text, text, None, [{"type": "text", "text": text}]])
    message: Message = {"role": draw.choice(ROLES), "content": content}
    if draw.random() < 0.2:
        calls = [call(draw.choice(ARGUMENTS)) for _ in range(1 + draw.randrange(2))]
        message["tool_calls"] = draw.choice([calls, calls, None, []])
    if draw.random() < 0.2:
        key = draw.choice(["reasoning_content", "thinking", "reasoning", "name", "tool_call_id"])
        message[key] = draw.choice(["near", "", None])
    if draw.random() < 0.1:
        del message["content"]
    return message
