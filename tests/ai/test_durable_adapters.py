"""The adapters as sources of runs: what readers of the stream get, and what a stop does to the model."""

import asyncio

from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from mainstem.ai import durable
from mainstem.ai.ag_ui import to_ag_ui
from mainstem.ai.langgraph import stream_graph
from mainstem.ai.pydantic_ai import stream_agent
from tests.ai.embedded import embedded


@embedded
async def test_an_agent_becomes_a_stream_of_chunks(runs):
    agent = Agent(TestModel(custom_output_text="Hello, world"))
    run = await durable(lambda: stream_agent(agent, "hi"), stream="agent", format="ui-messages")
    assert await run.wait() == "finished"
    chunks = await runs.streams.read_json("agent")
    assert (chunks[0]["type"], chunks[-1]["type"]) == ("start", "finish")
    assert "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta") == "Hello, world"


@embedded
async def test_the_same_agent_serves_ag_ui(runs):
    agent = Agent(TestModel(custom_output_text="Hello"))
    source = lambda: to_ag_ui(stream_agent(agent, "hi"), thread_id="t", run_id="r")  # noqa: E731
    run = await durable(source, stream="ag-ui", format="ag-ui")
    assert await run.wait() == "finished"
    events = await runs.streams.read_json("ag-ui")
    assert (events[0]["type"], events[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")


@embedded
async def test_a_stop_cancels_the_graph(runs):
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def think(state: MessagesState) -> MessagesState:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return state

    builder = StateGraph(MessagesState)
    builder.add_node("think", think)
    builder.add_edge(START, "think")
    builder.add_edge("think", END)
    graph = builder.compile()
    run = await durable(lambda: stream_graph(graph, {"messages": []}), stream="graph", format="ui-messages")
    await entered.wait()
    await run.stop("enough")
    assert await run.wait() == "stopped"
    await asyncio.wait_for(cancelled.wait(), 30)
    assert (await runs.streams.read_json("graph"))[-1] == {"type": "abort", "reason": "enough"}
