"""Check of the bundle's chat templates against transformers' apply_chat_template."""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, first_line, install, shown
from txexport.runtime.preprocessing import chat
from txexport.runtime.preprocessing.chat_messages import REASONING
from txexport.runtime.preprocessing.chat_templates import OF_PROCESSOR, of_processor, templates_of
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.conversations import ChatCase, seeded, usual
from txexport.verification.processors.original import equal, original

SEEDED = 200  # random conversations beside the usual ones
TRIES = 3  # of a prompt that differs: it may contain the time
PROBE = "{{ messages[0].content is defined }}{{ messages[0].reasoning_content is defined }}"


def check(folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool) -> list[TensorCheck]:
    """Compare the prompts of seeded conversations, for each template. Raises AssertionError, SkipError."""
    templates = templates_of(folder, read_json(folder / "tokenizer_config.json", missing={}))
    if not templates:
        raise SkipError("no chat template there")
    if of_processor(folder) is not None:
        raise SkipError(f"{OF_PROCESSOR} is the processor's, which tokenizers of transformers disregard")
    if find_spec("jinja2") is None:
        raise SkipError(f"jinja2 is not installed, which templates need; {install('chat')}")
    conversations = usual() + ([] if quick else seeded(SEEDED))
    with original("AutoTokenizer", checkpoint, manifest.model_type) as tokenizer:
        if not getattr(tokenizer, "chat_template", None):
            raise AssertionError("chat template: the bundle has one, and transformers finds none")
        known, left = _known(tokenizer, conversations)
        checks = [_checked(name, folder, tokenizer, known) for name in templates]
    return checks if not left else [*checks, equal(f"not tried: {left}", 0)]


def _known(tokenizer: Any, conversations: Sequence[ChatCase]) -> tuple[list[ChatCase], str]:
    """The conversations that this version of transformers reads like later ones, and the others in words.

    Before version 5 it wrote null content as "None", and knew one name for reasoning.
    """
    message = {"role": "user", "content": None, "thinking": "x"}
    probed = tokenizer.apply_chat_template([message], chat_template=PROBE, tokenize=False)
    nulls, reasoning = probed.startswith("False"), probed.endswith("True")
    known = [
        one
        for one in conversations
        if (nulls or all(value is not None for message in one.messages for value in message.values()))
        and (reasoning or not any(key in message for message in one.messages for key in REASONING))
    ]
    left = ["null keys"] * (not nulls) + ["names of reasoning"] * (not reasoning)
    return known, f"{' and '.join(left)}, of which this transformers knows nothing" if left else ""


def _checked(name: str, folder: Path, tokenizer: Any, conversations: Sequence[ChatCase]) -> TensorCheck:
    """The check of the template called `name`. Raises AssertionError, SkipError."""
    answered, last = 0, ""
    for one in conversations:
        for attempt in range(TRIES):
            expected, ours = theirs(tokenizer, name, one), prompt(folder, name, one)
            if _agree(ours, expected):
                break
            if attempt == TRIES - 1:
                _differs(name, one, ours, expected)
        answered += isinstance(ours, str)
        last = str(ours) if isinstance(ours, InputError) and not isinstance(expected, str) else last
    if not answered:
        raise SkipError(f"the template {shown(name)} cannot be used, in transformers neither: {last}")
    return equal(f"prompts of {name}", len(conversations))


def prompt(folder: Path, name: str | None, conversation: ChatCase) -> str | InputError:
    """The bundle's prompt of a conversation by the template called `name`, or the error."""
    request = chat.Conversation(
        conversation.messages, conversation.tools, name, conversation.values, conversation.continues
    )
    try:
        return chat.prompt(folder, request)
    except InputError as error:
        return error


def theirs(tokenizer: Any, name: str | None, conversation: ChatCase) -> str | Exception:
    """The prompt of transformers, or the error."""
    named = name if isinstance(tokenizer.chat_template, dict) else None
    try:
        with warnings.catch_warnings(action="ignore"):
            return tokenizer.apply_chat_template(
                conversation.messages,
                tools=conversation.tools,
                chat_template=named,
                add_generation_prompt=not conversation.continues,
                continue_final_message=conversation.continues,
                tokenize=False,
                **conversation.values,
            )
    except Exception as error:
        return error


def _agree(ours: str | InputError, expected: str | Exception) -> bool:
    """True if both give one prompt, or both an error; the bundle may refuse values that are not read."""
    if isinstance(ours, InputError):
        return isinstance(expected, Exception) or chat.UNREAD in str(ours)
    return ours == expected


def _differs(name: str, conversation: ChatCase, ours: str | InputError, expected: str | Exception) -> None:
    """Raise AssertionError, naming the conversation and the first difference."""
    where = f"the template {shown(name)}, conversation {shown(conversation.name)}"
    if isinstance(ours, str) and isinstance(expected, str):
        place = next(
            (at for at, (a, b) in enumerate(zip(ours, expected, strict=False)) if a != b),
            min(len(ours), len(expected)),
        )
        found, wanted = shown(ours[place:][:40]), shown(expected[place:][:40])
        difference = f"{found} at character {place:,}, in transformers {wanted}"
    else:
        difference = f"{_shown(ours)}, in transformers {_shown(expected)}"
    raise AssertionError(f"{where}: {difference}")


def _shown(answer: str | Exception) -> str:
    return shown(answer) if isinstance(answer, str) else first_line(answer)
