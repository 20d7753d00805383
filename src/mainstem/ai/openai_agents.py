"""Agents of the OpenAI Agents SDK as UI message chunks: `durable(stream_agent(agent, "Hello"), stream=...)`."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from mainstem.ai.ui_messages import Chunk, MessageBuilder, data, start

try:
    from agents import Agent, RunItem, Runner, RunState, StreamEvent, TResponseInputItem
    from agents.items import HandoffCallItem, HandoffOutputItem, ToolCallItem, ToolCallOutputItem
except ImportError as error:
    raise ImportError(
        "mainstem.ai.openai_agents needs the package openai-agents; "
        "install it with: pip install 'mainstem[openai-agents]'"
    ) from error


async def stream_agent(
    agent: Agent[Any],
    input: str | list[TResponseInputItem] | RunState[Any],
    *,
    message_id: str | None = None,
    **options: Any,
) -> AsyncGenerator[Chunk, None]:
    """Run an agent, and yield its text, reasoning, tool calls and tool outputs as UI message chunks.

    A handoff to another agent becomes a `data-handoff` chunk. `options` are those of `Runner.run_streamed`, such as
    `context`, `session`, `max_turns` and `run_config`. Closing the generator cancels the run.
    """
    translation = _Translation()
    yield start(message_id)
    result = Runner.run_streamed(agent, input, **options)
    events = cast(AsyncGenerator[StreamEvent, None], result.stream_events())
    async with aclosing(events):
        try:
            async for event in events:
                for chunk in translation.take(event):
                    yield chunk
        except BaseException:
            result.cancel()  # before the events are closed: closing them waits for the run
            raise
    for chunk in translation.finish():
        yield chunk


class _Translation:
    """The state of one run: tool calls by the ids of their items."""

    def __init__(self) -> None:
        self._builder = MessageBuilder()
        self._calls: dict[str, str] = {}  # id of an item: the id of its tool call

    def take(self, event: StreamEvent) -> list[Chunk]:
        if event.type == "raw_response_event":
            return self._take_raw(event.data)
        if event.type == "run_item_stream_event":
            return self._take_item(event.item)
        return []

    def finish(self) -> list[Chunk]:
        return self._builder.finish()

    def _take_raw(self, event: Any) -> list[Chunk]:
        """Translate an event of the model: one of the Responses API."""
        builder = self._builder
        match event.type:
            case "response.created":
                return builder.begin_step()
            case "response.output_text.delta" | "response.refusal.delta":
                return builder.add_text(f"{event.item_id} {event.content_index}", event.delta)
            case "response.output_text.done" | "response.refusal.done":
                return builder.end_part(f"{event.item_id} {event.content_index}")
            case "response.reasoning_summary_text.delta":
                return builder.add_reasoning(f"{event.item_id} summary {event.summary_index}", event.delta)
            case "response.reasoning_summary_text.done":
                return builder.end_part(f"{event.item_id} summary {event.summary_index}")
            case "response.reasoning_text.delta":
                return builder.add_reasoning(f"{event.item_id} reasoning {event.content_index}", event.delta)
            case "response.reasoning_text.done":
                return builder.end_part(f"{event.item_id} reasoning {event.content_index}")
            case "response.output_item.added" if event.item.type == "function_call":
                self._calls[event.item.id or ""] = event.item.call_id
                return builder.begin_tool_input(event.item.call_id, event.item.name)
            case "response.function_call_arguments.delta":
                return builder.add_tool_input(self._calls.get(event.item_id, ""), event.delta)
            case "response.output_item.done" if event.item.type == "function_call":
                return self._end_input(event.item)
        return []

    def _take_item(self, item: RunItem) -> list[Chunk]:
        """Translate something that the runner has done, or that the model has not streamed."""
        if isinstance(item, (ToolCallItem, HandoffCallItem)):
            return self._end_input(item.raw_item)
        if isinstance(item, ToolCallOutputItem):
            return self._end_call(item.raw_item, _to_json(item.output))
        if isinstance(item, HandoffOutputItem):
            handoff = {"from": item.source_agent.name, "to": item.target_agent.name}
            return [*self._end_call(item.raw_item, handoff), data("handoff", handoff)]
        return []

    def _end_input(self, item: Any) -> list[Chunk]:
        call_id, name = _field(item, "call_id") or _field(item, "id"), _field(item, "name") or _field(item, "type")
        if not call_id or not name:
            return []
        arguments = _field(item, "arguments") or "{}"
        try:
            return self._builder.end_tool_input(call_id, name, json.loads(arguments))
        except ValueError:
            return self._builder.end_tool_input(call_id, name, arguments, "The arguments are not valid JSON.")

    def _end_call(self, item: Any, output: Any) -> list[Chunk]:
        call_id = _field(item, "call_id") or _field(item, "id")
        return self._builder.add_tool_output(call_id, output) if call_id else []


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _to_json(value: Any) -> Any:
    """Return what a tool returned as a JSON value; text stands for anything that has no such form."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)
