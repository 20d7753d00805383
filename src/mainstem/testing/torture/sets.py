"""A recording reader of a stream set: many streams over one connection."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Read
from mainstem.testing.history.payloads import Position
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import EVERYTHING, Scope
from mainstem.testing.torture.workers import HttpWorker


class SetEvent(msgspec.Struct, rename="camel"):
    """One event of a set. `data` is an array of messages, or a text."""

    stream: str
    next_offset: str
    data: msgspec.Raw = msgspec.Raw()
    encoding: str = ""
    up_to_date: bool = False
    closed: bool = False
    deleted: bool = False

    def body(self) -> bytes:
        """Return the data as a page of the stream would hold it."""
        if self.encoding == "text":
            return msgspec.json.decode(self.data, type=str).encode()
        return bytes(self.data)


class SetEventParser:
    """Parses the bytes of one event stream, in pieces of any size, and remembers the id of the last event."""

    def __init__(self) -> None:
        self.last_id = ""
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[SetEvent]:
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        for block in blocks:
            fields = [line.split(b":", 1) for line in block.split(b"\n") if not line.startswith(b":")]
            data = b"\n".join(value for name, value in fields if name == b"data")
            if data:
                self.last_id = next(value.decode() for name, value in fields if name == b"id")
                yield msgspec.json.decode(data, type=SetEvent)


class SetTailer(HttpWorker):
    """Follows all streams that are kept and one that is not, and resumes after the last event that it received."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.positions = {path: Position(path) for path in (*scope.kept, self.chance.choice(scope.mortal))}
        self.last_id = ""

    async def work(self) -> None:
        began, parser = self.recorder.clock(), SetEventParser()
        query = [*(("stream", path) for path in self.positions), ("live", "sse"), ("resume", self.last_id)]
        async for reply in self.connection.stream(f"/v1/stream-set?{urlencode(query)}"):
            if reply.refusal is not None:  # a stream is missing, or is another incarnation
                self._begin_again()
                return
            for event in parser.feed(reply.body):
                if event.deleted:
                    self._begin_again()
                    return
                self._record(event, began)
                self.last_id = parser.last_id

    def _record(self, event: SetEvent, began: float) -> None:
        position = self.positions[event.stream]
        read = Read(client=self.client, node=self.node.name, path=event.stream, live=True, start=began)
        read.since = position.since
        read.messages = position.advance(event.body(), Offset.parse(event.next_offset))
        read.next, read.up_to_date, read.closed = position.since, event.up_to_date, event.closed
        self.recorder.add(read)

    def _begin_again(self) -> None:
        self.last_id = ""
        for position in self.positions.values():
            position.reset()
