import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt

from mainstem import limits
from mainstem.ai.ag_ui import to_ag_ui
from mainstem.ai.langgraph import stream_graph
from mainstem.client import BadArgument
from tests.ai.test_ag_ui import check_events
from tests.ai.ui_schema import check_chunks, collect, join_text, keep

QUESTION = {"messages": [HumanMessage("How is it?")]}


class ScriptedModel(BaseChatModel):
    """Streams the chunks of one answer after the other, as a provider's model does."""

    answers: Iterator[list[AIMessageChunk]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise AssertionError("it only streams")

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in next(self.answers):
            yield ChatGenerationChunk(message=chunk)


def call_chunk(args: str, name: str | None = None, id: str | None = None, index: int = 0) -> AIMessageChunk:
    call = {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk(content="", tool_call_chunks=[call])  # type: ignore[list-item]


@tool
def look(place: str) -> str:
    """Look at the sky."""
    if place == "nowhere":
        raise ValueError("no such place")
    get_stream_writer()({"type": "progress", "data": {"place": place}})
    get_stream_writer()("half way")
    return f"clear in {place}"


def build(model: BaseChatModel) -> Any:
    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_node("tools", ToolNode([look], handle_tool_errors=True))
    graph.add_edge(START, "answer")
    graph.add_conditional_edges("answer", tools_condition)
    graph.add_edge("tools", "answer")
    return graph.compile()


async def test_text_of_the_fake_model_of_the_library() -> None:
    graph = build(GenericFakeChatModel(messages=iter([AIMessage("It is sunny.")])))
    chunks = [chunk async for chunk in stream_graph(graph, QUESTION, message_id="m1")]
    check_chunks(chunks)
    assert chunks[0] == {"type": "start", "messageId": "m1"}
    assert join_text(chunks) == "It is sunny."
    assert len(keep(chunks, "text-delta")) > 1
    assert len(keep(chunks, "text-start")) == 1


async def test_reasoning_tools_and_text_in_two_steps() -> None:
    thought = AIMessageChunk(content=[{"type": "reasoning", "reasoning": "I should look."}])
    first = [thought, call_chunk('{"place": ', "look", "c1"), call_chunk('"Bonn"}')]
    second = [AIMessageChunk(content="It is "), AIMessageChunk(content="sunny.")]

    def make() -> Any:
        return build(ScriptedModel(answers=iter([first, second])))

    chunks = [chunk async for chunk in stream_graph(make(), QUESTION)]
    check_chunks(chunks)
    assert join_text(chunks, "reasoning-delta") == "I should look."
    assert [chunk["inputTextDelta"] for chunk in keep(chunks, "tool-input-delta")] == ['{"place": ', '"Bonn"}']
    assert keep(chunks, "tool-input-available")[0]["input"] == {"place": "Bonn"}
    assert keep(chunks, "tool-output-available") == [
        {"type": "tool-output-available", "toolCallId": "c1", "output": "clear in Bonn"}
    ]
    assert keep(chunks, "data-progress", "data-custom") == [
        {"type": "data-progress", "data": {"place": "Bonn"}},
        {"type": "data-custom", "data": "half way"},
    ]
    assert join_text(chunks) == "It is sunny."
    assert len(keep(chunks, "start-step")) == 2

    events = [event async for event in to_ag_ui(stream_graph(make(), QUESTION), thread_id="t", run_id="r")]
    check_events(events)


async def test_tools_that_fail_and_arguments_that_are_not_json() -> None:
    first = [call_chunk('{"place": "nowhere"}', "look", "c1"), call_chunk('{"place', "look", "c2", index=1)]
    graph = build(ScriptedModel(answers=iter([first, [AIMessageChunk(content="I cannot.")]])))
    chunks = [chunk async for chunk in stream_graph(graph, QUESTION)]
    check_chunks(chunks)
    assert "no such place" in keep(chunks, "tool-output-error")[0]["errorText"]
    assert join_text(chunks) == "I cannot."


async def test_a_call_id_that_is_used_again_is_another_call() -> None:
    answers = [[call_chunk(f'{{"place": "{place}"}}', "look", "call_0")] for place in ("Bonn", "Kiel")]
    graph = build(ScriptedModel(answers=iter([*answers, [AIMessageChunk(content="Done.")]])))
    chunks = [chunk async for chunk in stream_graph(graph, QUESTION)]
    check_chunks(chunks)
    assert [chunk["input"] for chunk in keep(chunks, "tool-input-available")] == [{"place": "Bonn"}, {"place": "Kiel"}]
    assert [chunk["output"] for chunk in keep(chunks, "tool-output-available")] == ["clear in Bonn", "clear in Kiel"]


async def test_values_that_are_no_json_become_json_or_text() -> None:
    async def write(state: MessagesState) -> dict[str, Any]:
        for value in (AIMessage("model"), 2j, "x" * limits.RUN_PIECE_BYTES_MAX):
            get_stream_writer()(value)
        return {"messages": []}

    graph = StateGraph(MessagesState)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    chunks = [chunk async for chunk in stream_graph(graph.compile(), QUESTION)]
    check_chunks(chunks)
    message, number, large = [chunk["data"] for chunk in keep(chunks, "data-custom")]
    assert message["content"] == "model"
    assert number == "2j"
    assert large.endswith("too large to be shown.")


async def test_options_that_the_adapter_needs_are_refused() -> None:
    with pytest.raises(BadArgument, match="chooses version itself"):
        await anext(stream_graph(build_failing(), QUESTION, version="v2"))


async def test_models_that_stream_at_the_same_time() -> None:
    graph = StateGraph(MessagesState)
    for name in ("left", "right"):
        pieces = [AIMessageChunk(content=f"{name}{number} ") for number in range(5)]
        model = ScriptedModel(answers=iter([pieces]))

        async def answer(state: MessagesState, model: BaseChatModel = model) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph.add_node(name, answer)
        graph.add_edge(START, name)
    chunks = [chunk async for chunk in stream_graph(graph.compile(), QUESTION)]
    check_chunks(chunks)
    for name in ("left", "right"):
        assert [chunk["delta"] for chunk in keep(chunks, "text-delta") if name in chunk["delta"]] == [
            f"{name}{number} " for number in range(5)
        ]


class PausingModel(ScriptedModel):
    """Waits between the two chunks of its answer."""

    waiting: Any
    go_on: Any

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        first, second = next(self.answers)
        yield ChatGenerationChunk(message=first)
        self.waiting.set()
        await self.go_on.wait()
        yield ChatGenerationChunk(message=second)


class Job(TypedDict):
    model: str


async def stream_in_parallel(
    quick: list[AIMessageChunk], slow: list[AIMessageChunk], results: list[BaseMessage], seen: str
) -> list[dict[str, Any]]:
    """Run two tasks of one node. The quick one reads only the first chunk of its answer, and ends with `results`.

    Meanwhile the slow one is in the middle of its answer. It goes on after a chunk of the type `seen`.
    """
    waiting, go_on = asyncio.Event(), asyncio.Event()
    models = {
        "quick": ScriptedModel(answers=iter([quick])),
        "slow": PausingModel(answers=iter([slow]), waiting=waiting, go_on=go_on),
    }

    async def answer(state: Job) -> dict[str, Any]:
        if state["model"] == "slow":
            return {"messages": [await models["slow"].ainvoke("How is it?")]}
        await waiting.wait()
        return {"messages": [await anext(models["quick"].astream("How is it?")), *results]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_conditional_edges(START, lambda _: [Send("answer", {"model": name}) for name in models], ["answer"])
    chunks = []
    async with asyncio.timeout(30):
        async for chunk in stream_graph(graph.compile(), QUESTION):
            chunks.append(chunk)
            if chunk["type"] == seen:
                go_on.set()
    check_chunks(chunks)
    return chunks


async def test_a_task_that_ends_does_not_end_the_message_of_another_task_of_its_node() -> None:
    quick = [AIMessageChunk(content="Sunny"), AIMessageChunk(content=", I think.")]
    slow = [call_chunk('{"place": ', "look", "c1"), call_chunk('"Bonn"}')]
    chunks = await stream_in_parallel(quick, slow, [], "text-end")
    assert join_text(chunks) == "Sunny"
    assert keep(chunks, "tool-input-available") == [
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "look", "input": {"place": "Bonn"}}
    ]


async def test_a_result_ends_only_the_message_with_its_call() -> None:
    quick = [call_chunk('{"place": "Bonn"}', "look", "c1"), AIMessageChunk(content="Let me look.")]
    slow = [AIMessageChunk(content="It is "), AIMessageChunk(content="sunny.")]
    chunks = await stream_in_parallel(quick, slow, [ToolMessage("clear", tool_call_id="c1")], "tool-output-available")
    assert keep(chunks, "tool-input-available")[0]["input"] == {"place": "Bonn"}
    assert join_text(chunks) == "It is sunny."
    assert len(keep(chunks, "text-start")) == 1


async def test_an_interrupt_is_data_and_the_graph_continues_in_another_run() -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("May I?"))]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    asked = [chunk async for chunk in stream_graph(compiled, QUESTION, config)]
    check_chunks(asked)
    assert keep(asked, "data-interrupt")[0]["data"]["value"] == "May I?"
    answered = [chunk async for chunk in stream_graph(compiled, Command(resume="You may."), config)]
    check_chunks(answered)
    assert join_text(answered) == "You may."


async def test_an_interrupt_of_a_subgraph_is_reported_once() -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt({"question": "May I?"}))]}

    inner = StateGraph(MessagesState)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    graph = StateGraph(MessagesState)
    graph.add_node("inner", inner.compile())
    graph.add_edge(START, "inner")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    chunks = [chunk async for chunk in stream_graph(compiled, QUESTION, config, subgraphs=True)]
    check_chunks(chunks)
    assert [chunk["data"]["value"] for chunk in keep(chunks, "data-interrupt")] == [{"question": "May I?"}]


async def test_messages_of_subgraphs() -> None:
    inner = build(GenericFakeChatModel(messages=iter([AIMessage("From inside.")])))
    graph = StateGraph(MessagesState)
    graph.add_node("inner", inner)
    graph.add_edge(START, "inner")
    chunks = [chunk async for chunk in stream_graph(graph.compile(), QUESTION, subgraphs=True)]
    check_chunks(chunks)
    assert join_text(chunks) == "From inside."


class EndlessModel(ScriptedModel):
    stopped: Any

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        try:
            yield ChatGenerationChunk(message=AIMessageChunk(content="I am talking"))
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def test_closing_the_chunks_stops_the_model() -> None:
    stopped = asyncio.Event()
    chunks = stream_graph(build(EndlessModel(answers=iter([]), stopped=stopped)), QUESTION)
    async for chunk in chunks:
        if chunk["type"] == "text-delta":
            break
    await chunks.aclose()
    async with asyncio.timeout(20):
        await stopped.wait()


async def test_an_error_of_a_node_is_raised() -> None:
    chunks: list[dict[str, Any]] = []
    with pytest.raises(ZeroDivisionError):
        await collect(stream_graph(build_failing(), QUESTION), chunks)
    check_chunks(chunks, complete=False)


def build_failing() -> Any:
    def fail(state: MessagesState) -> dict[str, Any]:
        return {"messages": [1 / 0]}

    graph = StateGraph(MessagesState)
    graph.add_node("fail", fail)
    graph.add_edge(START, "fail")
    return graph.compile()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.pregel", None)
    monkeypatch.delitem(sys.modules, "mainstem.ai.langgraph")
    with pytest.raises(ImportError, match=r"pip install 'mainstem\[langgraph\]'"):
        import mainstem.ai.langgraph  # noqa: F401
