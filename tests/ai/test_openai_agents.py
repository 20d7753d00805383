import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunState,
    WebSearchTool,
    function_tool,
)
from agents.exceptions import MaxTurnsExceeded
from openai import AsyncOpenAI
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
)
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_output_item import ImageGenerationCall, McpCall
from openai.types.responses.response_reasoning_item import Summary

from mainstem import limits
from mainstem.ai.ag_ui import to_ag_ui
from mainstem.ai.openai_agents import stream_agent
from tests.ai.test_ag_ui import check_events
from tests.ai.ui_schema import check_chunks, collect, join_text, keep
from tests.support.waits import eventually_async

QUIET = RunConfig(tracing_disabled=True)


def text_item(*pieces: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text="|".join(pieces), annotations=[])
    return ResponseOutputMessage(id="msg", type="message", role="assistant", status="completed", content=[content])


def call_item(name: str, arguments: str, call_id: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}", type="function_call", name=name, arguments=arguments, call_id=call_id
    )


class ScriptedModel(Model):
    """Streams the items of one response after the other as events of the Responses API."""

    def __init__(self, *responses: list[Any]) -> None:
        self._responses = iter(responses)
        self.stopped = asyncio.Event()

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        raise AssertionError("it only streams")

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        items = next(self._responses)
        response = Response(
            id="resp",
            created_at=0,
            model="test",
            object="response",
            output=[item for item in items if item is not None],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCreatedEvent(response=response, sequence_number=0, type="response.created")
        try:
            for number, item in enumerate(items):
                if item is None:
                    await asyncio.Event().wait()
                for event in self._say(item, number):
                    yield event
        finally:
            self.stopped.set()
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")

    def _say(self, item: Any, number: int) -> list[Any]:
        place: Any = {"output_index": number, "sequence_number": 0}
        inner: Any = place | {"item_id": item.id}
        added = ResponseOutputItemAddedEvent(item=item, type="response.output_item.added", **place)
        done = ResponseOutputItemDoneEvent(item=item, type="response.output_item.done", **place)
        if isinstance(item, ResponseOutputMessage):
            text: Any = inner | {"content_index": 0, "logprobs": []}
            part: Any = item.content[0]
            deltas: list[Any] = [
                ResponseTextDeltaEvent(delta=piece, type="response.output_text.delta", **text)
                for piece in part.text.split("|")
            ]
            part.text = part.text.replace("|", "")
            ended = ResponseTextDoneEvent(text=part.text, type="response.output_text.done", **text)
            return [added, *deltas, ended, done]
        if isinstance(item, ResponseReasoningItem):
            kind: Any = "response.reasoning_summary_text.delta"
            summary = item.summary[0].text
            return [
                added,
                ResponseReasoningSummaryTextDeltaEvent(delta=summary, summary_index=0, type=kind, **inner),
                done,
            ]
        if not isinstance(item, ResponseFunctionToolCall):  # the provider has executed it
            return [added, done]
        half = len(item.arguments) // 2
        kind = "response.function_call_arguments.delta"
        pieces = (item.arguments[:half], item.arguments[half:])
        arguments = [ResponseFunctionCallArgumentsDeltaEvent(delta=piece, type=kind, **inner) for piece in pieces]
        return [added, *arguments, done]


@function_tool
def look(place: str) -> dict[str, str]:
    """Look at the sky."""
    return {"place": place, "sky": "clear"}


@function_tool
def fail() -> str:
    """Fail."""
    raise ValueError("no such place")


def make_agent() -> Agent[Any]:
    thought = ResponseReasoningItem(
        id="rs", type="reasoning", summary=[Summary(text="I should look.", type="summary_text")]
    )
    model = ScriptedModel([thought, call_item("look", '{"place": "Bonn"}', "c1")], [text_item("It is ", "sunny.")])
    return Agent(name="Weather", model=model, tools=[look])


async def test_reasoning_tools_and_text_in_two_steps() -> None:
    chunks = [chunk async for chunk in stream_agent(make_agent(), "How is it?", message_id="m1", run_config=QUIET)]
    check_chunks(chunks)
    assert chunks[0] == {"type": "start", "messageId": "m1"}
    assert join_text(chunks, "reasoning-delta") == "I should look."
    assert "".join(chunk["inputTextDelta"] for chunk in keep(chunks, "tool-input-delta")) == '{"place": "Bonn"}'
    (call,) = keep(chunks, "tool-input-available")
    assert (call["toolCallId"], call["toolName"], call["input"]) == ("c1", "look", {"place": "Bonn"})
    (output,) = keep(chunks, "tool-output-available")
    assert output["output"] == {"place": "Bonn", "sky": "clear"}
    assert [chunk["delta"] for chunk in keep(chunks, "text-delta")] == ["It is ", "sunny."]
    assert len(keep(chunks, "start-step")) == 2


async def test_the_same_run_as_ag_ui_events() -> None:
    chunks = stream_agent(make_agent(), "How is it?", run_config=QUIET)
    check_events([event async for event in to_ag_ui(chunks, thread_id="t", run_id="r")])


async def test_a_handoff_is_data() -> None:
    expert = Agent(name="Expert", model=ScriptedModel([text_item("Sunny.")]))
    first = Agent(name="First", model=ScriptedModel([call_item("transfer_to_expert", "{}", "c1")]), handoffs=[expert])
    chunks = [chunk async for chunk in stream_agent(first, "How is it?", run_config=QUIET)]
    check_chunks(chunks)
    assert keep(chunks, "data-handoff") == [{"type": "data-handoff", "data": {"from": "First", "to": "Expert"}}]
    assert [chunk["toolCallId"] for chunk in keep(chunks, "tool-output-available")] == ["c1"]
    assert join_text(chunks) == "Sunny."


async def test_a_tool_that_fails_answers_with_its_error() -> None:
    model = ScriptedModel([call_item("fail", "{}", "c1")], [text_item("I cannot.")])
    agent = Agent(name="Weather", model=model, tools=[fail])
    chunks = [chunk async for chunk in stream_agent(agent, "How is it?", run_config=QUIET)]
    check_chunks(chunks)
    (output,) = keep(chunks, "tool-output-available")
    assert "error" in output["output"]  # the text that the SDK gives to the model


def stream_completions(*answers: list[dict[str, Any]]) -> OpenAIChatCompletionsModel:
    """Return the library's model for chat completions, with answers of a server that does not exist."""
    left = iter(answers)

    def reply(request: httpx2.Request) -> httpx2.Response:
        chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in next(left)]
        events = [
            {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [chunk]}
            for chunk in [*chunks, {"index": 0, "delta": {}, "finish_reason": "stop"}]
        ]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(reply))
    return OpenAIChatCompletionsModel("m", AsyncOpenAI(api_key="k", http_client=http))


def call_delta(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments}
    call: dict[str, Any] = {"index": index, "function": function}
    if name is not None:
        function["name"] = name
        call |= {"id": f"c{index}", "type": "function"}
    return {"tool_calls": [call]}


async def test_the_arguments_of_parallel_calls_are_not_mixed_up() -> None:
    begin = [call_delta(0, "", "look"), call_delta(1, "", "look")]
    middle = [call_delta(0, '{"place":'), call_delta(1, '{"place":')]
    end = [call_delta(0, '"Bonn"}'), call_delta(1, '"Kiel"}')]
    model = stream_completions([*begin, *middle, *end], [{"content": "Both are sunny."}])
    agent = Agent(name="Weather", model=model, tools=[look])
    chunks = [chunk async for chunk in stream_agent(agent, "How is it?", run_config=QUIET)]
    check_chunks(chunks)
    texts = {"c0": "", "c1": ""}
    for chunk in keep(chunks, "tool-input-delta"):
        texts[chunk["toolCallId"]] += chunk["inputTextDelta"]
    assert texts == {"c0": '{"place":"Bonn"}', "c1": '{"place":"Kiel"}'}


async def test_a_call_whose_arguments_are_not_json_has_one_result() -> None:
    model = stream_completions([call_delta(0, '{"pla', "look")], [{"content": "I cannot."}])
    agent = Agent(name="Weather", model=model, tools=[look])
    chunks = [chunk async for chunk in stream_agent(agent, "How is it?", run_config=QUIET)]
    check_chunks(chunks)
    assert [chunk["input"] for chunk in keep(chunks, "tool-input-error")] == ['{"pla']
    assert keep(chunks, "tool-output-available", "tool-output-error") == []


async def test_a_tool_that_needs_an_approval_continues_in_another_run() -> None:
    @function_tool(needs_approval=True)
    def launch(place: str) -> str:
        """Launch a balloon."""
        return f"launched in {place}"

    model = ScriptedModel([call_item("launch", '{"place": "Bonn"}', "c1")], [text_item("Done.")])
    agent = Agent(name="Weather", model=model, tools=[launch])
    states: list[RunState[Any]] = []
    asked = stream_agent(agent, "Launch it", on_interruption=states.append, run_config=QUIET)
    chunks = [chunk async for chunk in asked]
    check_chunks(chunks)
    assert keep(chunks, "tool-approval-request") == [
        {"type": "tool-approval-request", "approvalId": "c1", "toolCallId": "c1"}
    ]
    (state,) = states
    state.approve(state.get_interruptions()[0])
    chunks = [chunk async for chunk in stream_agent(agent, state, run_config=QUIET)]
    check_chunks(chunks)
    assert keep(chunks, "data-tool-output")[0]["data"] == {"toolCallId": "c1", "output": "launched in Bonn"}
    assert join_text(chunks) == "Done."


async def test_calls_that_the_provider_executes_have_their_results() -> None:
    search = ResponseFunctionWebSearch(
        id="ws", type="web_search_call", status="completed", action=ActionSearch(type="search", query="Bonn")
    )
    lookup = McpCall(
        id="m1", type="mcp_call", name="look", server_label="s", arguments='{"place": "Bonn"}', output="sunny"
    )
    gone: Any = {"type": "http_error", "code": 404, "message": "no place"}
    failed = McpCall(id="m2", type="mcp_call", name="look", server_label="s", arguments="{}", error=gone)
    picture = ImageGenerationCall(
        id="i1", type="image_generation_call", status="completed", result="x" * limits.RUN_PIECE_BYTES_MAX
    )
    model = ScriptedModel([search, lookup, failed, picture, text_item("Done.")])
    agent = Agent(name="Weather", model=model, tools=[WebSearchTool()])
    chunks = [chunk async for chunk in stream_agent(agent, "How is it?", run_config=QUIET)]
    check_chunks(chunks)
    calls = {chunk["toolCallId"]: (chunk["toolName"], chunk["input"]) for chunk in keep(chunks, "tool-input-available")}
    assert calls["ws"][0] == "web_search"
    assert calls["ws"][1]["query"] == "Bonn"
    assert calls["m1"] == ("look", {"place": "Bonn"})
    outputs = {chunk["toolCallId"]: chunk["output"] for chunk in keep(chunks, "tool-output-available")}
    assert outputs["ws"] == "completed"
    assert outputs["m1"] == "sunny"
    assert outputs["i1"].endswith("too large to be shown.")
    assert [chunk["errorText"] for chunk in keep(chunks, "tool-output-error")] == ["no place"]
    assert all(chunk["providerExecuted"] for chunk in chunks if chunk["type"].startswith("tool-"))


async def test_an_error_of_the_run_is_raised() -> None:
    chunks: list[dict[str, Any]] = []
    with pytest.raises(MaxTurnsExceeded):
        await collect(stream_agent(make_agent(), "How is it?", max_turns=1, run_config=QUIET), chunks)
    check_chunks(chunks, complete=False)


async def test_closing_the_chunks_stops_the_model() -> None:
    model = ScriptedModel([text_item("I am ", "talking"), None])
    chunks = stream_agent(Agent(name="Talker", model=model), "Hi", run_config=QUIET)
    async for chunk in chunks:
        if chunk["type"] == "text-delta":
            break
    await chunks.aclose()
    async with asyncio.timeout(20):
        await model.stopped.wait()


async def test_cancelling_the_reader_stops_the_model() -> None:
    model = ScriptedModel([text_item("I am ", "talking"), None])
    chunks: list[dict[str, Any]] = []
    talking = asyncio.create_task(collect(stream_agent(Agent(name="T", model=model), "Hi", run_config=QUIET), chunks))
    async with asyncio.timeout(20):
        await eventually_async(lambda: keep(chunks, "text-end"))
        talking.cancel()
        await asyncio.wait([talking])
        await model.stopped.wait()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agents", None)
    monkeypatch.delitem(sys.modules, "mainstem.ai.openai_agents")
    with pytest.raises(ImportError, match=r"pip install 'mainstem\[openai-agents\]'"):
        import mainstem.ai.openai_agents  # noqa: F401
