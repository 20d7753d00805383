"""AG-UI events, as TanStack AI and CopilotKit read them: from a framework that has them, or from UI message chunks."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from mainstem.ai.ui_messages import Chunk

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

Event = dict[str, Any]

ROLE = "assistant"


async def dump_events(events: "AsyncIterator[BaseEvent]") -> AsyncGenerator[Event, None]:
    """Yield events of the package `ag-ui-protocol` as JSON values, as its own encoder writes them.

    Closing it closes the source.
    """
    async with aclosing(_closable(events)) as source:
        async for event in source:
            yield event.model_dump(mode="json", by_alias=True)


async def to_ag_ui(chunks: AsyncIterator[Chunk], *, thread_id: str, run_id: str) -> AsyncGenerator[Event, None]:
    """Yield the AG-UI events of one run for its UI message chunks. Closing it closes the source.

    Chunks without a counterpart, such as `data-*`, sources and files, become CUSTOM events.
    """
    translation = _Translation(thread_id, run_id)
    async with aclosing(_closable(chunks)) as source:
        async for chunk in source:
            for event in translation.translate(chunk):
                yield event
        for event in translation.end():
            yield event


class _Translation:
    """The state of one run: what is open must be closed before RUN_FINISHED, and message ids are unique."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        self._run = {"threadId": thread_id, "runId": run_id}
        self._started = False
        self._ended = False
        self._numbers = 0
        self._steps = 0
        self._in_step = False
        self._parts: dict[tuple[str, str], str] = {}  # kind and id of an open part: id of its message
        self._calls: dict[str, bool] = {}  # id of a tool call whose input is incomplete: whether it has arguments yet

    def translate(self, chunk: Chunk) -> list[Event]:
        if self._ended:
            return []
        return [*self._start(), *self._translate(chunk["type"], chunk)]

    def end(self) -> list[Event]:
        """Return the events that end a run whose chunks do not say how it ended."""
        return [] if self._ended else [*self._start(), *self._finish({})]

    def _translate(self, type: str, chunk: Chunk) -> list[Event]:
        match type.split("-"):
            case ["start"]:
                return []
            case ["start", "step"]:
                return self._begin_step()
            case ["finish", "step"]:
                return self._end_step()
            case ["text" | "reasoning" as kind, "start"]:
                return self._begin_part(kind, chunk["id"])
            case ["text" | "reasoning" as kind, "delta"]:
                return self._continue_part(kind, chunk["id"], chunk["delta"])
            case ["text" | "reasoning" as kind, "end"]:
                return self._end_part(kind, chunk["id"])
            case ["tool", "input", *_]:
                return self._take_input(type, chunk)
            case ["tool", "output", *_]:
                return self._take_output(type, chunk)
            case ["finish"]:
                return self._finish({})
            case ["abort"]:
                return self._finish({"result": {"stopped": chunk.get("reason", "")}})
            case ["error"]:
                self._ended = True
                return [{"type": "RUN_ERROR", "message": chunk["errorText"]}]
            case ["data", *_]:
                return [{"type": "CUSTOM", "name": type.removeprefix("data-"), "value": chunk.get("data")}]
        value = {name: value for name, value in chunk.items() if name != "type"}
        return [{"type": "CUSTOM", "name": type, "value": value}]

    # The run and its steps

    def _start(self) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [{"type": "RUN_STARTED", **self._run}]

    def _finish(self, more: Event) -> list[Event]:
        events = self._end_step()
        for call_id in list(self._calls):
            events += self._end_call(call_id, None)
        self._ended = True
        return [*events, {"type": "RUN_FINISHED", **self._run, **more}]

    def _begin_step(self) -> list[Event]:
        events = self._end_step()
        self._steps += 1
        self._in_step = True
        return [*events, {"type": "STEP_STARTED", "stepName": f"step-{self._steps}"}]

    def _end_step(self) -> list[Event]:
        events = [event for kind, id in list(self._parts) for event in self._end_part(kind, id)]
        if self._in_step:
            self._in_step = False
            events.append({"type": "STEP_FINISHED", "stepName": f"step-{self._steps}"})
        return events

    # Texts and reasoning

    def _begin_part(self, kind: str, id: str) -> list[Event]:
        message_id = self._parts[kind, id] = self._new_id()
        if kind == "text":
            return [{"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": ROLE}]
        begun = {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"}
        return [{"type": "REASONING_START", "messageId": message_id}, begun]

    def _continue_part(self, kind: str, id: str, delta: str) -> list[Event]:
        if not delta:  # AG-UI does not allow it
            return []
        events = [] if (kind, id) in self._parts else self._begin_part(kind, id)
        type = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        return [*events, {"type": type, "messageId": self._parts[kind, id], "delta": delta}]

    def _end_part(self, kind: str, id: str) -> list[Event]:
        message_id = self._parts.pop((kind, id), None)
        if message_id is None:
            return []
        if kind == "text":
            return [{"type": "TEXT_MESSAGE_END", "messageId": message_id}]
        ended = {"type": "REASONING_MESSAGE_END", "messageId": message_id}
        return [ended, {"type": "REASONING_END", "messageId": message_id}]

    def _new_id(self) -> str:
        self._numbers += 1
        return f"{self._run['runId']}-{self._numbers}"

    # Tools

    def _take_input(self, type: str, chunk: Chunk) -> list[Event]:
        call_id = chunk["toolCallId"]
        if type == "tool-input-delta":
            if not chunk["inputTextDelta"]:
                return []
            self._calls[call_id] = True
            return [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": chunk["inputTextDelta"]}]
        events: list[Event] = []
        if call_id not in self._calls:
            self._calls[call_id] = False
            events.append({"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": chunk["toolName"]})
        if type != "tool-input-start":
            events += self._end_call(call_id, chunk.get("input"))
        if type == "tool-input-error":
            events.append(self._make_result(call_id, chunk["errorText"]))
        return events

    def _end_call(self, call_id: str, input: Any) -> list[Event]:
        ended: Event = {"type": "TOOL_CALL_END", "toolCallId": call_id}
        if self._calls.pop(call_id) or input is None:
            return [ended]
        return [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": _to_text(input)}, ended]

    def _take_output(self, type: str, chunk: Chunk) -> list[Event]:
        if chunk.get("preliminary"):
            return []
        call_id = chunk["toolCallId"]
        events = self._end_call(call_id, None) if call_id in self._calls else []
        if type == "tool-output-available":
            content = _to_text(chunk.get("output"))
        else:
            content = chunk.get("errorText", "The tool call was denied.")
        return [*events, self._make_result(call_id, content)]

    def _make_result(self, call_id: str, content: str) -> Event:
        result = {"type": "TOOL_CALL_RESULT", "messageId": self._new_id(), "toolCallId": call_id}
        return {**result, "content": content, "role": "tool"}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


async def _closable(source: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Yield the items of a source, and close it at the end if it can be closed."""
    try:
        async for item in source:
            yield item
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
