from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import CustomEvent, Event, RunStartedEvent, StateDeltaEvent, TextMessageContentEvent
from pydantic import TypeAdapter

from mainstem.ai import ui_messages as ui
from mainstem.ai.ag_ui import dump_events, to_ag_ui

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)


async def give(*items: Any, closed: list[str] | None = None) -> AsyncIterator[Any]:
    try:
        for item in items:
            yield item
    finally:
        if closed is not None:
            closed.append("closed")


async def translate(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    events = [event async for event in to_ag_ui(give(*chunks), thread_id="t", run_id="r")]
    check_events(events)
    return events


def check_events(events: list[dict[str, Any]]) -> None:
    """Fail unless the models of the protocol accept the events, and everything is closed when the run finishes."""
    open_: set[tuple[str, Any]] = set()
    for event in events:
        parsed = EVENTS.validate_python(event)
        assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == event
        kind, _, phase = event["type"].rpartition("_")
        id = event.get("stepName") or event.get("toolCallId") or event.get("messageId")
        if phase in ("START", "STARTED") and kind != "RUN":
            assert (kind, id) not in open_
            open_.add((kind, id))
        elif phase in ("END", "FINISHED") and kind != "RUN":
            open_.remove((kind, id))
        elif phase in ("CONTENT", "ARGS"):
            assert (kind, id) in open_, event
    assert events[0]["type"] == "RUN_STARTED"
    assert [event["type"] for event in events[1:]].count("RUN_STARTED") == 0
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    assert events[-1]["type"] == "RUN_ERROR" or not open_


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_a_message_with_everything_becomes_events() -> None:
    events = await translate(
        ui.start("m"),
        ui.start_step(),
        ui.reasoning_start("1"),
        ui.reasoning_delta("1", "hm"),
        ui.reasoning_end("1"),
        ui.tool_input_start("c1", "look"),
        ui.tool_input_delta("c1", '{"a"'),
        ui.tool_input_delta("c1", ":1}"),
        ui.tool_input("c1", "look", {"a": 1}),
        ui.tool_input("c2", "look", {"b": 2}),
        ui.tool_output("c1", {"found": True}),
        ui.tool_output_error("c2", "no"),
        ui.finish_step(),
        ui.start_step(),
        ui.text_start("1"),
        ui.text_delta("1", "Yes"),
        ui.text_delta("1", ""),
        ui.text_end("1"),
        ui.data("note", {"n": 1}),
        {"type": "source-url", "sourceId": "s", "url": "http://example.com"},
        ui.finish_step(),
        ui.finish(),
    )
    assert events == [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "STEP_STARTED", "stepName": "step-1"},
        {"type": "REASONING_START", "messageId": "r-1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "r-1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r-1", "delta": "hm"},
        {"type": "REASONING_MESSAGE_END", "messageId": "r-1"},
        {"type": "REASONING_END", "messageId": "r-1"},
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"a"'},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": ":1}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TOOL_CALL_START", "toolCallId": "c2", "toolCallName": "look"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c2", "delta": '{"b": 2}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c2"},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "r-2",
            "toolCallId": "c1",
            "content": '{"found": true}',
            "role": "tool",
        },
        {"type": "TOOL_CALL_RESULT", "messageId": "r-3", "toolCallId": "c2", "content": "no", "role": "tool"},
        {"type": "STEP_FINISHED", "stepName": "step-1"},
        {"type": "STEP_STARTED", "stepName": "step-2"},
        {"type": "TEXT_MESSAGE_START", "messageId": "r-4", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-4", "delta": "Yes"},
        {"type": "TEXT_MESSAGE_END", "messageId": "r-4"},
        {"type": "CUSTOM", "name": "note", "value": {"n": 1}},
        {"type": "CUSTOM", "name": "source-url", "value": {"sourceId": "s", "url": "http://example.com"}},
        {"type": "STEP_FINISHED", "stepName": "step-2"},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
    ]


async def test_what_is_open_is_closed_when_the_run_stops() -> None:
    open_ = [ui.start(), ui.start_step(), ui.text_delta("1", "Ye"), ui.tool_input_start("c", "look")]
    events = await translate(*open_, ui.abort("enough"), ui.text_delta("1", "late"))
    assert events[-1]["result"] == {"stopped": "enough"}
    assert types(events).count("TEXT_MESSAGE_CONTENT") == 1
    assert types(await translate(*open_))[-1] == "RUN_FINISHED"
    assert types(await translate()) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_an_error_ends_the_run() -> None:
    events = await translate(ui.start(), ui.error("the model is gone"), ui.finish())
    assert events[-1] == {"type": "RUN_ERROR", "message": "the model is gone"}


async def test_tool_calls_that_do_not_run() -> None:
    events = await translate(
        ui.tool_input_error("c1", "look", "{", "not JSON"),
        ui.tool_input_start("c2", "look"),
        {"type": "tool-output-denied", "toolCallId": "c2"},
        {**ui.tool_output("c3", "half"), "preliminary": True},
    )
    results = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert results == ["not JSON", "The tool call was denied."]


async def test_events_of_the_library_are_dumped_in_camel_case_with_the_nulls_that_mean_something() -> None:
    closed: list[str] = []
    patch: Any = {"op": "replace", "path": "/a", "value": None}
    source = give(
        RunStartedEvent(thread_id="t", run_id="r"),
        TextMessageContentEvent(message_id="m", delta="Hi"),
        CustomEvent(name="nothing", value=None),
        StateDeltaEvent(delta=[patch]),
        closed=closed,
    )
    assert [event async for event in dump_events(source)] == [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hi"},
        {"type": "CUSTOM", "name": "nothing", "value": None},
        {"type": "STATE_DELTA", "delta": [patch]},
    ]
    assert closed == ["closed"]


async def test_closing_the_events_closes_the_source() -> None:
    closed: list[str] = []
    events = to_ag_ui(give(ui.start(), ui.finish(), closed=closed), thread_id="t", run_id="r")
    await anext(events)
    await events.aclose()
    assert closed == ["closed"]
