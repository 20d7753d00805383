"""LangGraph graphs as UI message chunks: `durable(stream_graph(graph, {"messages": [...]}), stream=...)`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from mainstem.ai.pieces import to_json_value
from mainstem.ai.ui_messages import Chunk, MessageBuilder, data, start
from mainstem.client.core.errors import BadArgument

try:
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import StreamMode
except ImportError as error:
    raise ImportError(
        "mainstem.ai.langgraph needs the package langgraph; install it with: pip install 'mainstem[langgraph]'"
    ) from error

MODES: list[StreamMode] = ["messages", "custom", "tasks"]


async def stream_graph(
    graph: Pregel[Any, Any, Any, Any],
    input: Any,
    config: RunnableConfig | None = None,
    *,
    message_id: str | None = None,
    **options: Any,
) -> AsyncGenerator[Chunk, None]:
    """Run a graph, and yield the text, reasoning, tool calls and tool results of its models as UI message chunks.

    What nodes write with a stream writer becomes `data-custom` chunks; a dict with a `type` of text and `data`
    becomes a chunk of that name. An interrupt becomes a `data-interrupt` chunk. `options` are those of `astream`,
    such as `context`, `durability` and `subgraphs`, but not `stream_mode` and `version`. Closing the generator cancels
    the nodes that are running.
    """
    if unknown := sorted({"stream_mode", "version"} & options.keys()):
        raise BadArgument(f"stream_graph chooses {unknown[0]} itself: leave it out")
    messages = _Messages()
    yield start(message_id)
    parts = cast(AsyncGenerator[Any, None], graph.astream(input, config, stream_mode=MODES, **options))
    async with aclosing(parts):
        async for part in parts:
            mode, value = part[-2:]  # with subgraphs, the namespace comes before them
            for chunk in messages.take(mode, value):
                yield chunk
    for chunk in messages.finish():
        yield chunk


class _Messages:
    """The messages of one run. Models of parallel tasks, even of one node, may stream theirs at the same time."""

    def __init__(self) -> None:
        self._builder = MessageBuilder()
        self._open: dict[str, tuple[str, AIMessage]] = {}  # id of an incomplete message: its task, and what came so far
        self._calls: dict[tuple[str, Any], str] = {}  # message id and index of a tool call: the id of the call
        self._interrupts: set[str] = set()

    def take(self, mode: str, value: Any) -> list[Chunk]:
        if mode == "messages":
            message, metadata = value
            return self._take_message(message, metadata.get("langgraph_checkpoint_ns", ""))
        if mode == "custom":
            return [_make_data(value)]
        return self._take_task(value)

    def finish(self) -> list[Chunk]:
        return [*self._end(*self._open), *self._builder.finish()]

    def _take_message(self, message: BaseMessage, namespace: str) -> list[Chunk]:
        if isinstance(message, ToolMessage):
            return self._take_result(message)
        if not isinstance(message, AIMessage):
            return []
        id = message.id or ""
        chunks = self._builder.begin_step() if id not in self._open and not self._open else []
        so_far = self._open[id][1] if id in self._open else None
        if isinstance(so_far, AIMessageChunk) and isinstance(message, AIMessageChunk):
            self._open[id] = (namespace, so_far + message)
        else:
            self._open[id] = (namespace, message)
        for block in message.content_blocks:
            if block["type"] == "text":
                chunks += self._builder.end_part(f"{id} reasoning") if block["text"] else []
                chunks += self._builder.add_text(f"{id} text", block["text"])
            elif block["type"] == "reasoning":
                chunks += self._builder.add_reasoning(f"{id} reasoning", block.get("reasoning", ""))
        if not isinstance(message, AIMessageChunk):
            return [*chunks, *self._end(id)]
        for call in message.tool_call_chunks:
            if call["id"] and call["name"]:
                self._calls[id, call["index"]] = call["id"]
                chunks += self._builder.begin_tool_input(call["id"], call["name"])
            call_id = self._calls.get((id, call["index"]))
            if call_id is not None:
                chunks += self._builder.add_tool_input(call_id, call["args"] or "")
        return chunks + (self._end(id) if message.chunk_position == "last" else [])

    def _take_result(self, message: ToolMessage) -> list[Chunk]:
        chunks = self._end(*{id for (id, _), call_id in self._calls.items() if call_id == message.tool_call_id})
        if message.status == "error":
            return [*chunks, *self._builder.add_tool_error(message.tool_call_id, str(message.text))]
        return [*chunks, *self._builder.add_tool_output(message.tool_call_id, to_json_value(message.text))]

    def _take_task(self, task: dict[str, Any]) -> list[Chunk]:
        """If a task has ended without an error, so have the messages of its model."""
        if task.get("error") is not None or "result" not in task:
            return []
        # The namespace of a message holds the id of its task, and those of the tasks around it.
        chunks = self._end(*[id for id, (namespace, _) in self._open.items() if task["id"] in namespace])
        for interrupt in task["interrupts"]:
            if interrupt["id"] not in self._interrupts:  # those of a subgraph are reported by its node, too
                self._interrupts.add(interrupt["id"])
                value = to_json_value(interrupt["value"])
                chunks.append(data("interrupt", {"id": interrupt["id"], "value": value}))
        return chunks

    def _end(self, *ids: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        for id in ids:
            message = self._open.pop(id)[1]
            chunks += self._builder.end_part(f"{id} reasoning") + self._builder.end_part(f"{id} text")
            for call in message.tool_calls:
                if call["id"]:
                    chunks += self._builder.end_tool_input(call["id"], call["name"], call["args"])
            for invalid in message.invalid_tool_calls:
                if invalid["id"]:
                    chunks += self._builder.end_tool_input(
                        invalid["id"], invalid["name"] or "", invalid["args"], "The arguments are not valid JSON."
                    )
            self._calls = {key: call_id for key, call_id in self._calls.items() if key[0] != id}
        return chunks


def _make_data(value: Any) -> Chunk:
    if isinstance(value, dict) and isinstance(value.get("type"), str) and "data" in value:
        return data(value["type"].removeprefix("data-"), to_json_value(value["data"]))
    return data("custom", to_json_value(value))
