"""Agents of the OpenAI Agents SDK as UI message chunks: `durable(stream_agent(agent, "Hello"), stream=...)`."""

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

from mainstem.ai.pieces import to_json_value
from mainstem.ai.ui_messages import Chunk, MessageBuilder, data, start, tool_approval_request

try:
    from agents import Agent, RunItem, Runner, RunState, StreamEvent, TResponseInputItem
    from agents.items import HandoffCallItem, HandoffOutputItem, ToolApprovalItem, ToolCallItem, ToolCallOutputItem
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
    on_interruption: Callable[[RunState[Any]], Awaitable[object] | object] | None = None,
    **options: Any,
) -> AsyncGenerator[Chunk, None]:
    """Run an agent, and yield its text, reasoning, tool calls and tool outputs as UI message chunks.

    A handoff to another agent becomes a `data-handoff` chunk, and a tool that needs an approval a
    `tool-approval-request`. `on_interruption` is then called with the state of the run, which is the `input` of another
    run once its tools are approved. `options` are those of `Runner.run_streamed`, such as `context`, `session`,
    `max_turns` and `run_config`. Closing the generator cancels the run.
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
    if result.interruptions and on_interruption is not None:
        called = on_interruption(result.to_state())
        if inspect.isawaitable(called):
            await called
    for chunk in translation.ask(result.interruptions):
        yield chunk
    for chunk in translation.finish():
        yield chunk


PROVIDED = {
    "web_search_call": ("action", "status"),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt", "result"),
    "mcp_call": ("arguments", "output"),
}
"""The tool calls that the provider of the model executes, and the fields that hold the input and the output of each."""


class _Translation:
    """The state of one run."""

    def __init__(self) -> None:
        self._builder = MessageBuilder()
        self._calls: dict[int, str] = {}  # index of an item in the response: the id of its tool call

    def take(self, event: StreamEvent) -> list[Chunk]:
        if event.type == "raw_response_event":
            return self._take_raw(event.data)
        if event.type == "run_item_stream_event":
            return self._take_item(event.item)
        return []

    def ask(self, interruptions: list[ToolApprovalItem]) -> list[Chunk]:
        ids = [_field(item.raw_item, "call_id") or _field(item.raw_item, "id") for item in interruptions]
        return [tool_approval_request(id) for id in ids if id]

    def finish(self) -> list[Chunk]:
        return self._builder.finish()

    def _take_raw(self, event: Any) -> list[Chunk]:
        """Translate an event of the model: one of the Responses API."""
        builder = self._builder
        match event.type:
            case "response.created":
                self._calls.clear()
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
                self._calls[event.output_index] = event.item.call_id
                return builder.begin_tool_input(event.item.call_id, event.item.name)
            case "response.function_call_arguments.delta":
                return builder.add_tool_input(self._calls.get(event.output_index, ""), event.delta)
            case "response.output_item.done" if event.item.type == "function_call":
                return self._end_input(event.item)
        return []

    def _take_item(self, item: RunItem) -> list[Chunk]:
        """Translate something that the runner has done, or that the model has not streamed."""
        if isinstance(item, (ToolCallItem, HandoffCallItem)):
            if _field(item.raw_item, "type") in PROVIDED:
                return self._add_provided(item.raw_item)
            return self._end_input(item.raw_item)
        if isinstance(item, ToolCallOutputItem):
            return self._end_call(item.raw_item, to_json_value(item.output))
        if isinstance(item, HandoffOutputItem):
            handoff = {"from": item.source_agent.name, "to": item.target_agent.name}
            return [*self._end_call(item.raw_item, handoff), data("handoff", handoff)]
        return []

    def _end_input(self, item: Any) -> list[Chunk]:
        call_id, name = _field(item, "call_id") or _field(item, "id"), _field(item, "name") or _field(item, "type")
        if not call_id or not name:
            return []
        return self._builder.end_tool_input(call_id, name, *_parse(_field(item, "arguments")))

    def _add_provided(self, item: Any) -> list[Chunk]:
        type, error = _field(item, "type"), _field(item, "error")
        input, output = (_field(item, name) for name in PROVIDED[type])
        return self._builder.add_provider_call(
            _field(item, "id"),
            _field(item, "name") or type.removesuffix("_call"),
            _parse(input)[0] if type == "mcp_call" else to_json_value(input),
            to_json_value(output),
            None if error is None else _to_text(error),
        )

    def _end_call(self, item: Any, output: Any) -> list[Chunk]:
        call_id = _field(item, "call_id") or _field(item, "id")
        return self._builder.add_tool_output(call_id, output) if call_id else []


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _parse(arguments: str | None) -> tuple[Any, str | None]:
    """Return the arguments of a call, and an error if they are not valid JSON."""
    try:
        return json.loads(arguments or "{}"), None
    except ValueError:
        return arguments, "The arguments are not valid JSON."


def _to_text(error: Any) -> str:
    return _field(error, "message") or json.dumps(to_json_value(error))
