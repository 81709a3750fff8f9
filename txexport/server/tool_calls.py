"""Calls of functions in generated texts, in the formats that published chat templates write.

A call that cannot be parsed stays text, as the model wrote it.
"""

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from txexport.errors import TxexportError
from txexport.runtime.preprocessing.chat import Conversation, prompt
from txexport.runtime.preprocessing.text import Text
from txexport.server.texts import overlap

OPENS, CLOSES = "<tool_call>", "</tool_call>"
CALLS, CALL_ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
# Mistral's call since its tokenizers of version 11.
NAMED = re.compile(
    rf"\s*([\w.-]+?)\s*(?:{re.escape(CALL_ID)}\w*)?(?:{re.escape(ARGUMENTS)})?\s*(\{{.*\}})\s*", re.DOTALL
)
NAME_FIRST = re.compile(rf"{re.escape(CALLS)}\s*[^\s\[]")  # in a prompt with a call
EXAMPLE, EXAMPLE_ID = "get_weather", "abcdefghi"  # Mistral's templates take ids of nine characters


class Form(Enum):
    """A format of calls."""

    TAGS = "tags"  # <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen2.5, Qwen3
    OBJECT = "object"  # {"name": ..., "parameters": {...}}, as the whole text: Llama 3.1 to 3.3
    MARK = "mark"  # [TOOL_CALLS] [{"name": ..., "arguments": {...}}], or [TOOL_CALLS]NAME[ARGS]{...}: Mistral


@dataclass(frozen=True)
class Call:
    """A function's name, and its arguments as JSON text."""

    name: str
    arguments: str

    def entry(self) -> dict[str, Any]:
        """The call in OpenAI's format, with an id that all templates take."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": uuid.uuid4().hex[: len(EXAMPLE_ID)], "type": "function", "function": function}


@dataclass(frozen=True)
class CallFormat:
    """The format of a bundle's calls, and the ids of special tokens that belong to it, which texts lack.

    `after_name` are the marks between a call's name and its arguments, of Mistral's newer format; None where
    calls are JSON objects with both.
    """

    form: Form
    marks: Mapping[int, str]
    after_name: tuple[str, ...] | None = None


def call_format(folder: Path, text: Text) -> CallFormat | None:
    """The format in which the chat template writes a call; None if it writes none that is known here."""
    function = {"name": EXAMPLE, "arguments": {"city": "Paris"}}
    called = {"id": EXAMPLE_ID, "type": "function", "function": function}
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "A city"}}}
    tool = {"name": EXAMPLE, "description": "The weather.", "parameters": schema}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "name": EXAMPLE, "tool_call_id": EXAMPLE_ID, "content": "It rains."},
    ]
    try:
        written = prompt(folder, Conversation(messages, [{"type": "function", "function": tool}]))
    except TxexportError:
        return None
    form = _form_of(written)
    if form is None:
        return None
    marks = (CALLS, CALL_ID, ARGUMENTS) if form is Form.MARK else (OPENS, CLOSES)
    ids = {text.tokenizer.token_to_id(mark): mark for mark in marks}
    special = {number: mark for number, mark in ids.items() if number in text.joining.special}
    named = form is Form.MARK and NAME_FIRST.search(written) is not None
    return CallFormat(form, special, tuple(one for one in marks[1:] if one in written) if named else None)


def _form_of(written: str) -> Form | None:
    """The format of a call in a prompt: of the example, or in the template's instructions."""
    if CALLS in written:
        return Form.MARK
    if re.search(OPENS + r'\s*\{\s*"name"', written) is not None:
        return Form.TAGS
    return Form.OBJECT if f'{{"name": "{EXAMPLE}", "parameters": ' in written else None


class CallReader:
    """Separates the text of an answer from its calls, as it grows.

    `add` and `end` yield text and calls in their order. Text that may belong to a call is held back, and so
    are spaces, which are dropped before and after calls. `names` are the functions that may be called: a text
    that is a JSON object is a call of one of them only. With `single`, all after the first call is dropped.
    """

    def __init__(self, format: CallFormat, names: frozenset[str], single: bool = False):
        self.format, self.names, self.single = format, names, single
        self.complete = False  # the only call has been read
        self.held, self.spaces = "", ""
        self.inside = self.called = False  # a call has begun; the last part was a call
        self.plain = False  # the text has begun as no JSON object does

    def add(self, piece: str) -> Iterator[str | Call]:
        """Read the next piece of the text."""
        if self.complete:
            return
        self.held += piece
        form = self.format.form
        if form is Form.OBJECT:
            start = self.held.lstrip()[:1]
            self.plain = self.plain or start not in ("", "{")
            if self.plain:
                yield from self._text(self._released())
            return
        opens = OPENS if form is Form.TAGS else CALLS
        while True:
            if self.inside:
                body, closed, rest = self.held.partition(CLOSES)
                if form is Form.MARK or not closed:
                    return
                self.inside, self.held = False, rest
                yield from self._calls(body, f"{OPENS}{body}{CLOSES}")
                if self.complete:
                    return
                continue
            before, opened, rest = self.held.partition(opens)
            if opened:
                self.inside, self.held = True, rest
                yield from self._text(before)
                continue
            end = len(self.held) - overlap(self.held, opens)
            before, self.held = self.held[:end], self.held[end:]
            yield from self._text(before)
            return

    def end(self) -> Iterator[str | Call]:
        """Read the end of the text."""
        if self.complete:
            return
        opens = {Form.TAGS: OPENS, Form.MARK: CALLS, Form.OBJECT: ""}[self.format.form]
        rest = self._released()
        if self.inside or (self.format.form is Form.OBJECT and not self.plain):
            yield from self._calls(rest, f"{opens}{rest}" if self.inside else rest)
        else:
            yield from self._text(rest)
        if self.spaces and not self.called:
            yield self.spaces

    def _released(self) -> str:
        text, self.held = self.held, ""
        return text

    def _calls(self, body: str, text: str) -> Iterator[str | Call]:
        """The calls of a body, or the `text` that it stands in, if there are none."""
        calls = _parsed(self.format.form, body)
        if calls and self.format.form is Form.OBJECT and not {call.name for call in calls} <= self.names:
            calls = None
        if not calls:
            for mark in self.format.marks.values():  # texts do not show special tokens
                text = text.replace(mark, "")
            yield from self._text(text)
            return
        self.spaces, self.called, self.complete = "", True, self.single
        yield from calls[:1] if self.single else calls

    def _text(self, text: str) -> Iterator[str]:
        """Text without the spaces at its end, which are held back."""
        text = self.spaces + text
        self.spaces = text[len(text.rstrip()) :]
        text = text.rstrip()
        if text:
            yield text.lstrip() if self.called else text
            self.called = False


def _parsed(form: Form, body: str) -> list[Call] | None:
    """The calls of a body; None unless all of it is calls."""
    try:
        if form is Form.TAGS:
            return [_call(_json(body))]
        if form is Form.OBJECT:
            return [_call(one) for one in _objects(body)]
        calls: list[Call] = []
        for part in body.split(CALLS):
            calls += _marked(part)
        return calls
    except (RecursionError, TypeError, ValueError):
        return None


def _marked(part: str) -> list[Call]:
    """The calls after one mark of Mistral's: a list, or a name with its arguments."""
    if part.lstrip().startswith("["):
        return [_call(one) for one in _json(part)]
    named = NAMED.fullmatch(part)
    if named is None:
        raise ValueError
    return [_call({"name": named[1], "arguments": named[2]})]


def _objects(body: str) -> Iterator[Any]:
    """The JSON values of a text, with a semicolon or spaces between them."""
    decoder, at = json.JSONDecoder(parse_constant=_constant), 0
    while at < len(body):
        between = re.compile(r"[\s;]*").match(body, at)
        assert between is not None
        if (at := between.end()) == len(body):
            return
        value, at = decoder.raw_decode(body, at)
        yield value


def _call(value: Any) -> Call:
    """A call of its JSON. Raises TypeError or ValueError for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise ValueError
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _json(arguments)
    if not isinstance(arguments, dict):
        raise ValueError
    return Call(value["name"], json.dumps(arguments, ensure_ascii=False))


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_constant)


def _constant(name: str) -> None:
    """Refuse NaN and infinities, which are no JSON."""
    raise ValueError(name)
