"""Recording readers of the whole log."""

import asyncio
from collections.abc import Sequence

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Event, LogPage, Row, size_of
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.torture.connections import Connection, Unanswered
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import EVERYTHING, Scope
from mainstem.testing.torture.workers import HttpWorker

FINAL_TRIES_MAX = 20
FINAL_PAUSE_S = 0.5
REST_S_MAX = 1.0


class Line(msgspec.Struct):
    """One row of the log as NDJSON."""

    committed_id: int
    stream: str | None
    offset: str | None
    partitions: tuple[str, ...] | None
    id: str | None
    content_type: str
    data: str


async def read_page(connection: Connection, call: LogPage, scope: Scope) -> None:
    """Read one page, and note those of its rows that the history is about."""
    reply = await connection.request("GET", f"/v1/log?after={call.after}&max_bytes=200000")
    if (refusal := reply.refusal) is not None:
        raise ValueError(f"a page of the log after {call.after} was refused: {refusal}")
    rows: list[Row] = []
    events: list[Event] = []
    for text in reply.body.splitlines():
        line = msgspec.json.decode(text, type=Line)
        if line.stream is None or line.offset is None:
            event = Event(line.committed_id, line.id or "", line.partitions or (), line.data)
            if scope.holds_event(event):
                events.append(event)
            continue
        if not scope.holds_stream(line.stream):
            continue
        start = Offset.parse(line.offset)
        # A row of JSON is one message, and a row of text is one append.
        for message in line.data.removesuffix("\n").split("\n"):
            rows.append(Row(line.committed_id, line.stream, start, message))
            start = Offset(start.read_seq, start.position + size_of((message,)))
    call.rows, call.events = tuple(rows), tuple(events)
    call.next, call.up_to_date = int(reply.headers["log-next"]), reply.says("log-up-to-date")


class LogReader(HttpWorker):
    """Follows the log page by page. It rests much, because an embedded store starts a process for its first page."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.after = scope.after

    async def step(self) -> None:
        await self.rest()
        with self.recorder.record(LogPage(client=self.name, node=self.node.name, after=self.after)) as call:
            await read_page(self.connection, call, self.scope)
        self.after = call.next

    async def rest(self) -> None:
        await asyncio.sleep(self.chance.uniform(0, REST_S_MAX))


async def read_whole_log(node: Node, recorder: Recorder, scope: Scope = EVERYTHING) -> None:
    """Record a reading of the whole log of the history, with a new attempt after a failure.

    A node may still look for its database.
    """
    for attempt in range(1, FINAL_TRIES_MAX + 1):
        try:
            return await _read_whole_log(node, recorder, f"final {node.name} {attempt}", scope)
        except Unanswered:
            if attempt == FINAL_TRIES_MAX:
                raise
            await asyncio.sleep(FINAL_PAUSE_S)


async def _read_whole_log(node: Node, recorder: Recorder, client: str, scope: Scope) -> None:
    assert node.address is not None
    connection = await Connection.open(node.address)
    try:
        after, up_to_date = scope.after, False
        while not up_to_date:
            with recorder.record(LogPage(client=client, node=node.name, after=after)) as call:
                await read_page(connection, call, scope)
            after, up_to_date = call.next, call.up_to_date
    finally:
        connection.close()
