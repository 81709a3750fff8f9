"""The output items of the Responses API, and the events of their growth."""

import uuid
from collections.abc import Iterator
from typing import Any, TypeAlias

from txexport.server.tool_calls import Call

Object: TypeAlias = dict[str, Any]


class Output:
    """The output of a response as it grows: messages and calls of functions, in their order.

    Methods yield events, which are without a sequence number.
    """

    def __init__(self) -> None:
        self.items: list[Object] = []
        self.is_message = False  # the last item is a message that is not complete

    def add(self, part: str | Call) -> Iterator[Object]:
        """Add text or a call."""
        if isinstance(part, Call):
            yield from self._complete("completed")
            yield from self._call(part)
            return
        if not self.is_message:
            yield from self._begin()
        content = self.items[-1]["content"][0]
        content["text"] += part
        yield self._event("output_text.delta", content_index=0, delta=part, logprobs=[])

    def end(self, status: str) -> Iterator[Object]:
        """Complete the last message with that status. Without any item, there is an empty message."""
        if not self.items:
            yield from self._begin()
        yield from self._complete(status)

    def _begin(self) -> Iterator[Object]:
        """Begin a message."""
        item: Object = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant"}
        yield self._added(item | {"status": "in_progress", "content": []})
        self.items[-1]["content"] = [_text("")]
        self.is_message = True
        yield self._event("content_part.added", content_index=0, part=_text(""))

    def _complete(self, status: str) -> Iterator[Object]:
        """Complete the last message, if it is not."""
        if not self.is_message:
            return
        self.is_message, item = False, self.items[-1]
        text, item["status"] = item["content"][0]["text"], status
        yield self._event("output_text.done", content_index=0, text=text, logprobs=[])
        yield self._event("content_part.done", content_index=0, part=_text(text))
        yield self._done()

    def _call(self, call: Call) -> Iterator[Object]:
        entry = call.entry()
        item = {"id": f"fc_{uuid.uuid4().hex}", "type": "function_call", "call_id": entry["id"]}
        yield self._added(item | {"name": call.name, "arguments": "", "status": "in_progress"})
        self.items[-1] |= {"arguments": call.arguments, "status": "completed"}
        yield self._event("function_call_arguments.delta", delta=call.arguments)
        yield self._event("function_call_arguments.done", name=call.name, arguments=call.arguments)
        yield self._done()

    def _added(self, item: Object) -> Object:
        self.items.append(item)
        return {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": {**item}}

    def _done(self) -> Object:
        item = {**self.items[-1]}
        return {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": item}

    def _event(self, event: str, **fields: Any) -> Object:
        """An event of the last item."""
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}
        return {"type": f"response.{event}", **place, **fields}


def _text(text: str) -> Object:
    """A text as the content of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
