"""Requests of the Responses API as requests of chat completions."""

from collections.abc import Mapping, Sequence
from typing import Any

from txexport.server.refusals import RefusedError, as_json

ROLES = ("user", "assistant", "system", "developer")
TOLD = ("name", "description", "parameters")  # what a model is to know of a function
TEXTS = ("input_text", "output_text", "text")
SAME = ("model", "temperature", "top_p", "stream", "parallel_tool_calls", "chat_template_kwargs", "timeout")
# Fields of the Responses API, and those of chat completions that errors name.
NAMES = {
    "messages": "input",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text",
    "reasoning_effort": "reasoning",
}


def chat_fields(body: Mapping[str, Any], others: Sequence[str]) -> dict[str, Any]:
    """The fields of the same request to chat completions; `others` keep their names. Raises RefusedError."""
    fields = {name: body[name] for name in (*SAME, *others) if name in body}
    fields["messages"] = _messages(body)
    if "max_output_tokens" in body:
        fields["max_completion_tokens"] = body["max_output_tokens"]
    if "tools" in body:
        fields["tools"] = [_tool(one) for one in body["tools"]]
    if "tool_choice" in body:
        fields["tool_choice"] = _tool_choice(body["tool_choice"])
    effort = _only(body, "reasoning", ("effort",)).get("effort")
    if effort is not None:
        fields["reasoning_effort"] = effort
    _only(body, "stream_options", ("include_obfuscation",))
    form = _only(body, "text", ("format",)).get("format")
    if form is not None:
        fields["response_format"] = _format(form)
    return fields


def named_as_here(error: RefusedError) -> RefusedError:
    """An error of chat completions with the names of the Responses API's fields."""
    name = NAMES.get(error.param or "")
    if error.param is None or name is None:
        return error
    message = str(error)
    if message.startswith(f"{error.param} "):
        message = name + message.removeprefix(error.param)
    return RefusedError(message, error.status, param=name)


def _only(body: Mapping[str, Any], name: str, keys: Sequence[str]) -> dict[str, Any]:
    """An object of a request without null values. Raises RefusedError for other keys than `keys`."""
    value = {key: one for key, one in body.get(name, {}).items() if one is not None}
    for key in value:
        if key not in keys:
            expected = ", ".join(keys)
            raise RefusedError(f"{name} has {as_json(key)}, expected {expected} only", param=name)
    return value


def _format(form: Any) -> dict[str, Any]:
    """A text.format as a response_format."""
    if isinstance(form, dict) and form.get("type") == "json_schema":
        return {"type": "json_schema", "json_schema": {k: form[k] for k in form if k != "type"}}
    if not isinstance(form, dict):
        raise RefusedError(f"text.format is {as_json(form)}, expected an object", param="text")
    return form


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    if kind != "function":
        raise RefusedError(
            f"a tool is {as_json(kind)}, expected a function: this server runs no tools of its own",
            param="tools",
        )
    # Templates write all of a tool into the prompt: `strict` and the like are not for the model.
    return {"type": "function", "function": {k: tool[k] for k in TOLD if tool.get(k) is not None}}


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return choice


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The instructions and the items of the input as messages."""
    first = [{"role": "system", "content": body["instructions"]}] if "instructions" in body else []
    items = body["input"]
    if isinstance(items, str):
        return [*first, {"role": "user", "content": items}]
    messages: list[dict[str, Any]] = first
    for item in items:
        message = _message(item)
        # An answer's text and its calls are items of their own, and one message.
        if "tool_calls" in message and messages and messages[-1]["role"] == "assistant":
            messages[-1].setdefault("tool_calls", []).extend(message["tool_calls"])
        else:
            messages.append(message)
    return messages


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of the input as a message. Raises RefusedError."""
    kind = item.get("type", "message")
    if kind == "message" and item.get("role") in ROLES:
        return {"role": item["role"], "content": _content(item.get("content"))}
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "function_call_output":
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": _content(item.get("output"))}
    if kind == "item_reference":
        raise RefusedError("the server keeps no items, so an item_reference cannot be read", param="input")
    if kind == "message":
        raise RefusedError(
            f"an item's role is {as_json(item.get('role'))}, expected one of {', '.join(ROLES)}",
            param="input",
        )
    raise RefusedError(
        f"an item of input is {as_json(kind)}, expected message, function_call or function_call_output",
        param="input",
    )


def _content(content: Any) -> str | list[dict[str, Any]]:
    """A content as that of a message of chat completions, which are checked there."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RefusedError(
            f"an item's content is {as_json(content)}, expected a text or a list", param="input"
        )
    return [_part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else part
    if kind in TEXTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and part.get("file_id") is None:
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    raise RefusedError(
        f"a part of the input is {as_json(kind)}, expected input_text, or input_image with an image_url",
        param="input",
    )
