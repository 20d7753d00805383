import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from mainstem import limits
from mainstem.ai.ag_ui import to_ag_ui
from mainstem.ai.pydantic_ai import stream_agent
from tests.ai.test_ag_ui import check_events
from tests.ai.ui_schema import check_chunks, collect, join_text, keep


def has_result(messages: list[ModelMessage]) -> bool:
    return any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)


async def think_call_and_answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    if not has_result(messages):
        yield {0: DeltaThinkingPart(content="I should ")}
        yield {0: DeltaThinkingPart(content="look.")}
        yield {1: DeltaToolCall(name="look", json_args='{"place": ', tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args='"Bonn"}', tool_call_id="c1")}
    else:
        yield "It is "
        yield "sunny."


def make_agent(model: Any) -> Agent[None, str]:
    agent = Agent(model)

    @agent.tool_plain(retries=1)
    def look(place: str) -> dict[str, str]:
        if place == "nowhere":
            raise ModelRetry("no such place")
        return {"place": place, "sky": "clear"}

    return agent


async def test_thinking_tools_and_text_in_two_steps() -> None:
    agent = make_agent(FunctionModel(stream_function=think_call_and_answer))
    chunks = [chunk async for chunk in stream_agent(agent, "How is it?", message_id="m1")]
    check_chunks(chunks)
    assert chunks[0] == {"type": "start", "messageId": "m1"}
    assert join_text(chunks, "reasoning-delta") == "I should look."
    assert join_text(chunks) == "It is sunny."
    (call,) = keep(chunks, "tool-input-available")
    assert (call["toolCallId"], call["toolName"], call["input"]) == ("c1", "look", {"place": "Bonn"})
    (output,) = keep(chunks, "tool-output-available")
    assert output["output"] == {"place": "Bonn", "sky": "clear"}
    assert len(keep(chunks, "start-step")) == 2


async def test_the_same_run_as_ag_ui_events() -> None:
    agent = make_agent(FunctionModel(stream_function=think_call_and_answer))
    events = [event async for event in to_ag_ui(stream_agent(agent, "How is it?"), thread_id="t", run_id="r")]
    check_events(events)
    assert "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT") == "It is sunny."
    assert [event["toolCallName"] for event in events if event["type"] == "TOOL_CALL_START"] == ["look"]


async def test_run_options_reach_the_library() -> None:
    chunks = [chunk async for chunk in stream_agent(Agent(), "Hi", model=TestModel(custom_output_text="Hello there"))]
    check_chunks(chunks)
    assert join_text(chunks) == "Hello there"


async def test_a_tool_that_fails_and_is_called_again() -> None:
    calls = iter(['{"place": "nowhere"}', '{"place": "Bonn"}'])

    async def call_twice(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if (arguments := next(calls, None)) is not None:
            yield {0: DeltaToolCall(name="look", json_args=arguments, tool_call_id=f"c{len(messages)}")}
        else:
            yield "Done."

    chunks = [chunk async for chunk in stream_agent(make_agent(FunctionModel(stream_function=call_twice)), "Look")]
    check_chunks(chunks)
    assert "no such place" in keep(chunks, "tool-output-error")[0]["errorText"]
    assert join_text(chunks) == "Done."


async def test_a_tool_that_returns_nothing_and_one_that_returns_too_much() -> None:
    async def call_both(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if has_result(messages):
            yield "Done."
        else:
            yield {0: DeltaToolCall(name="forget", json_args="{}", tool_call_id="c1")}
            yield {1: DeltaToolCall(name="paint", json_args="{}", tool_call_id="c2")}

    agent = Agent(FunctionModel(stream_function=call_both))

    @agent.tool_plain
    def forget() -> None:
        return None

    @agent.tool_plain
    def paint() -> str:
        return "x" * limits.RUN_PIECE_BYTES_MAX

    chunks = [chunk async for chunk in stream_agent(agent, "Hi")]
    check_chunks(chunks)
    outputs = {chunk["toolCallId"]: chunk["output"] for chunk in keep(chunks, "tool-output-available")}
    assert outputs["c1"] is None
    assert outputs["c2"].endswith("too large to be shown.")
    assert join_text(chunks) == "Done."


async def test_an_error_of_the_model_is_raised_and_not_shown() -> None:
    async def fail(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "half"
        raise ConnectionError("secret address")

    chunks: list[dict[str, Any]] = []
    with pytest.raises(ConnectionError):
        await collect(stream_agent(Agent(FunctionModel(stream_function=fail)), "Hi"), chunks)
    check_chunks(chunks, complete=False)
    assert "secret" not in str(chunks)
    assert keep(chunks, "finish", "error") == []


async def test_closing_the_chunks_stops_the_model() -> None:
    stopped = asyncio.Event()

    async def talk_for_ever(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        try:
            yield "I am "
            yield "talking"
            await asyncio.Event().wait()
        finally:
            stopped.set()

    chunks = stream_agent(Agent(FunctionModel(stream_function=talk_for_ever)), "Hi")
    async for chunk in chunks:
        if chunk["type"] == "text-delta":
            break
    await chunks.aclose()
    async with asyncio.timeout(20):
        await stopped.wait()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.agent", None)
    monkeypatch.delitem(sys.modules, "mainstem.ai.pydantic_ai")
    with pytest.raises(ImportError, match=r"pip install 'mainstem\[pydantic-ai\]'"):
        import mainstem.ai.pydantic_ai  # noqa: F401
