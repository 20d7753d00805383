"""UI message chunks, as `useChat` of the AI SDK reads them: one function per chunk, and the chunks of a whole message.

Names and fields are those of `uiMessageChunkSchema` of the npm package `ai`, version 6.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

Chunk = dict[str, Any]


def start(message_id: str | None = None) -> Chunk:
    return {"type": "start"} if message_id is None else {"type": "start", "messageId": message_id}


def start_step() -> Chunk:
    return {"type": "start-step"}


def text_start(id: str) -> Chunk:
    return {"type": "text-start", "id": id}


def text_delta(id: str, delta: str) -> Chunk:
    return {"type": "text-delta", "id": id, "delta": delta}


def text_end(id: str) -> Chunk:
    return {"type": "text-end", "id": id}


def reasoning_start(id: str) -> Chunk:
    return {"type": "reasoning-start", "id": id}


def reasoning_delta(id: str, delta: str) -> Chunk:
    return {"type": "reasoning-delta", "id": id, "delta": delta}


def reasoning_end(id: str) -> Chunk:
    return {"type": "reasoning-end", "id": id}


def tool_input_start(call_id: str, name: str) -> Chunk:
    return {"type": "tool-input-start", "toolCallId": call_id, "toolName": name}


def tool_input_delta(call_id: str, delta: str) -> Chunk:
    return {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": delta}


def tool_input(call_id: str, name: str, input: Any) -> Chunk:
    return {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": input}


def tool_input_error(call_id: str, name: str, input: Any, error: str) -> Chunk:
    return {
        "type": "tool-input-error",
        "toolCallId": call_id,
        "toolName": name,
        "input": input,
        "errorText": error,
    }


def tool_output(call_id: str, output: Any) -> Chunk:
    return {"type": "tool-output-available", "toolCallId": call_id, "output": output}


def tool_output_error(call_id: str, error: str) -> Chunk:
    return {"type": "tool-output-error", "toolCallId": call_id, "errorText": error}


def tool_approval_request(call_id: str) -> Chunk:
    """Return the chunk that asks a person to approve a tool call; the id of the call is that of the request, too."""
    return {"type": "tool-approval-request", "approvalId": call_id, "toolCallId": call_id}


def data(name: str, value: Any) -> Chunk:
    """Return a chunk of the application's own data; the front end finds it under the type `data-` and the name."""
    return {"type": f"data-{name}", "data": value}


def finish_step() -> Chunk:
    return {"type": "finish-step"}


def finish() -> Chunk:
    return {"type": "finish"}


def error(text: str) -> Chunk:
    return {"type": "error", "errorText": text}


def abort(reason: str | None = None) -> Chunk:
    return {"type": "abort"} if reason is None else {"type": "abort", "reason": reason}


class MessageBuilder:
    """Builds the chunks of one message in a valid order: it begins steps and parts, and ends those that are open.

    Each method returns the chunks to send next. A `key` names a part while it is open; the ids of parts are its own.
    """

    def __init__(self) -> None:
        self._parts: dict[str, tuple[str, str]] = {}  # key of an open part: its kind and its id
        self._numbers = 0
        self._in_step = False
        self._calls: dict[str, str] = {}
        """The tool calls by their ids: "streaming", "available" once the input is complete, or else "settled"."""

    def begin_step(self) -> list[Chunk]:
        chunks = self.end_step()
        self._in_step = True
        # Some models use the ids of their calls again.
        self._calls = {id: call for id, call in self._calls.items() if call != "settled"}
        return [*chunks, start_step()]

    def add_text(self, key: str, delta: str) -> list[Chunk]:
        return self._add("text", key, delta)

    def add_reasoning(self, key: str, delta: str) -> list[Chunk]:
        return self._add("reasoning", key, delta)

    def end_part(self, key: str) -> list[Chunk]:
        if key not in self._parts:
            return []
        kind, id = self._parts.pop(key)
        return [text_end(id) if kind == "text" else reasoning_end(id)]

    def begin_tool_input(self, call_id: str, name: str) -> list[Chunk]:
        if call_id in self._calls:
            return []
        self._calls[call_id] = "streaming"
        return [*self._ensure_step(), tool_input_start(call_id, name)]

    def add_tool_input(self, call_id: str, delta: str) -> list[Chunk]:
        return [tool_input_delta(call_id, delta)] if delta and self._calls.get(call_id) == "streaming" else []

    def end_tool_input(self, call_id: str, name: str, input: Any, error: str | None = None) -> list[Chunk]:
        if self._calls.get(call_id) in ("available", "settled"):
            return []
        self._calls[call_id] = "available" if error is None else "settled"
        last = tool_input(call_id, name, input) if error is None else tool_input_error(call_id, name, input, error)
        return [*self._ensure_step(), last]

    def add_tool_output(self, call_id: str, output: Any) -> list[Chunk]:
        return self._add_result(tool_output(call_id, output))

    def add_tool_error(self, call_id: str, error: str) -> list[Chunk]:
        return self._add_result(tool_output_error(call_id, error))

    def add_provider_call(
        self, call_id: str, name: str, input: Any, output: Any, error: str | None = None
    ) -> list[Chunk]:
        """Return the chunks of a call that the provider of the model has executed: the front end must not do so."""
        if call_id in self._calls:
            return []
        self._calls[call_id] = "settled"
        result = tool_output(call_id, output) if error is None else tool_output_error(call_id, error)
        chunks = [{**chunk, "providerExecuted": True} for chunk in (tool_input(call_id, name, input), result)]
        return [*self._ensure_step(), *chunks]

    def end_step(self) -> list[Chunk]:
        if not self._in_step:
            return []
        self._in_step = False
        return [*(chunk for key in list(self._parts) for chunk in self.end_part(key)), finish_step()]

    def finish(self) -> list[Chunk]:
        return [*self.end_step(), finish()]

    def _add(self, kind: str, key: str, delta: str) -> list[Chunk]:
        chunks = self._ensure_step()
        if key in self._parts and self._parts[key][0] != kind:
            chunks += self.end_part(key)
        if key not in self._parts:
            if not delta:
                return chunks
            self._numbers += 1
            id = f"{kind}-{self._numbers}"
            self._parts[key] = (kind, id)
            chunks.append(text_start(id) if kind == "text" else reasoning_start(id))
        id = self._parts[key][1]
        if delta:
            chunks.append(text_delta(id, delta) if kind == "text" else reasoning_delta(id, delta))
        return chunks

    def _add_result(self, chunk: Chunk) -> list[Chunk]:
        call_id = chunk["toolCallId"]
        if call_id not in self._calls:  # of an earlier message: a front end fails on results without calls
            return [data("tool-output", {name: value for name, value in chunk.items() if name != "type"})]
        if self._calls[call_id] == "settled":  # the error of its input is its result
            return []
        self._calls[call_id] = "settled"
        return [chunk]

    def _ensure_step(self) -> list[Chunk]:
        return [] if self._in_step else self.begin_step()


async def text_chunks(source: AsyncIterator[str], *, message_id: str | None = None) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of a message whose text comes piece by piece. Closing it closes the source."""
    builder = MessageBuilder()
    try:
        yield start(message_id)
        async for piece in source:
            for chunk in builder.add_text("", piece):
                yield chunk
        for chunk in builder.finish():
            yield chunk
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
