"""reasoning_effort: the values by which a chat template chooses how long the model reasons."""

from collections.abc import Mapping
from typing import Any

from txexport.runtime.preprocessing.chat import template_values
from txexport.server.bodies import Schema
from txexport.server.refusals import RefusedError
from txexport.server.served import Served

OFF = "none"
EFFORT: Schema = {
    "enum": [OFF, "minimal", "low", "medium", "high", "xhigh", "max"],
    "description": "For chat templates that read reasoning_effort, enable_thinking or thinking.",
}
LEVEL = "reasoning_effort"  # a level, as OpenAI's own
SWITCHES = ("enable_thinking", "thinking")  # true or false


def with_effort(served: Served, body: Mapping[str, Any]) -> dict[str, Any]:
    """A request's chat_template_kwargs, with its reasoning_effort.

    A template that reads only a switch gets false for "none", and otherwise true. Raises RefusedError for a
    template that reads neither, and for a value that chat_template_kwargs sets too.
    """
    values: dict[str, Any] = dict(body.get("chat_template_kwargs", {}))
    effort = body.get("reasoning_effort")
    if effort is None:
        return values
    read = template_values(served.model.bundle.files.folder, tools=bool(body.get("tools")))
    chosen = {name: effort != OFF for name in SWITCHES if name in read}
    chosen |= {LEVEL: effort} if LEVEL in read else {}
    if not chosen:
        names = ", ".join((LEVEL, *SWITCHES))
        raise RefusedError(
            f"reasoning_effort needs a chat template that reads one of {names}; that of {served.name} reads "
            "none, so leave it out",
            param="reasoning_effort",
        )
    for name in chosen:
        if name in values:
            raise RefusedError(
                f"reasoning_effort sets {name}, which chat_template_kwargs has too; send one of them",
                param="reasoning_effort",
            )
    return values | chosen
