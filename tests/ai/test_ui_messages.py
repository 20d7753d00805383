from collections.abc import AsyncIterator
from typing import Any

import pytest

from mainstem.ai import ui_messages
from mainstem.ai.ui_messages import MessageBuilder, text_chunks
from tests.ai.ui_schema import check_chunks, collect, join_text


async def say(*pieces: str, closed: list[str] | None = None) -> AsyncIterator[str]:
    try:
        for piece in pieces:
            yield piece
    finally:
        if closed is not None:
            closed.append("closed")


async def test_text_becomes_a_whole_message() -> None:
    chunks = [chunk async for chunk in text_chunks(say("The main ", "", "stem"), message_id="m1")]
    check_chunks(chunks)
    assert chunks == [
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "The main "},
        {"type": "text-delta", "id": "text-1", "delta": "stem"},
        {"type": "text-end", "id": "text-1"},
        {"type": "finish-step"},
        {"type": "finish"},
    ]


async def test_a_source_without_text_is_a_whole_message_too() -> None:
    assert [chunk async for chunk in text_chunks(say())] == [{"type": "start"}, {"type": "finish"}]


async def test_closing_the_chunks_closes_the_source() -> None:
    closed: list[str] = []
    chunks = text_chunks(say("a", "b", closed=closed))
    while (await anext(chunks))["type"] != "text-delta":
        pass
    await chunks.aclose()
    assert closed == ["closed"]


async def test_an_error_of_the_source_is_raised_after_the_chunks_before_it() -> None:
    async def fail() -> AsyncIterator[str]:
        yield "half"
        raise ConnectionError("the model is gone")

    chunks: list[dict[str, Any]] = []
    with pytest.raises(ConnectionError, match="the model is gone"):
        await collect(text_chunks(fail()), chunks)
    check_chunks(chunks, complete=False)
    assert join_text(chunks) == "half"


def test_the_builder_ends_what_is_open() -> None:
    builder = MessageBuilder()
    chunks = [ui_messages.start()]
    chunks += builder.add_reasoning("a", "hm")
    chunks += builder.add_text("a", "Yes")  # the same key with another kind is another part
    chunks += builder.add_text("b", "No")  # parts may overlap
    chunks += builder.begin_tool_input("c1", "look")
    chunks += builder.begin_tool_input("c1", "look")
    chunks += builder.add_tool_input("c1", '{"a":1}')
    chunks += builder.end_tool_input("c1", "look", {"a": 1})
    chunks += builder.end_tool_input("c1", "look", {"a": 1})
    chunks += builder.add_tool_input("c1", "late")
    chunks += builder.add_tool_output("c1", 7)
    chunks += builder.begin_step()
    chunks += builder.end_tool_input("c2", "look", "{", "not JSON")
    chunks += builder.add_tool_error("c2", "no")
    chunks += builder.finish()
    check_chunks(chunks)
    assert [chunk["type"] for chunk in chunks].count("tool-input-available") == 1
    assert [chunk["type"] for chunk in chunks].count("start-step") == 2


def test_a_result_of_a_call_in_an_earlier_message_is_data() -> None:
    value = {"toolCallId": "old", "output": 7}
    assert MessageBuilder().add_tool_output("old", 7) == [{"type": "data-tool-output", "data": value}]


def test_the_last_chunks_of_runs_that_fail_or_stop() -> None:
    assert ui_messages.error("no") == {"type": "error", "errorText": "no"}
    assert ui_messages.abort() == {"type": "abort"}
    assert ui_messages.abort("stopped") == {"type": "abort", "reason": "stopped"}
