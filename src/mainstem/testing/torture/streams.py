"""Recording clients of streams: plain, conditional and numbered appends, closes, deletes, and readers of every kind."""

from collections.abc import Sequence

from mainstem.client.core.sse import BatchParser
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import Append, Create, Delete, Head, Read
from mainstem.testing.history.payloads import Position, content_type, decode_messages, encode_messages, target
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.torture.connections import Reply, Unanswered
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import EVERYTHING, Scope
from mainstem.testing.torture.workers import HttpWorker

TTL_S = 30 * 24 * 3600  # no jump of a clock reaches it


def take_tail(call: Append | Head | Read, reply: Reply) -> None:
    """Note what a reply says about the end of the stream, whether it accepts the request or not."""
    call.refusal = reply.refusal
    call.next = reply.next_offset
    call.closed = reply.says("stream-closed")


class StreamWorker(HttpWorker):
    """A worker with the requests of streams."""

    async def create(self, path: str) -> None:
        with self.recorder.record(Create(client=self.client, node=self.node.name, path=path)) as call:
            headers = {"Content-Type": content_type(path)}
            if path in self.scope.mortal:
                headers["Stream-TTL"] = str(TTL_S)
            reply = await self.connection.request("PUT", f"/v1/stream/{path}", headers)
            call.refusal, call.next = reply.refusal, reply.next_offset
            call.new = reply.status == 201

    async def append(
        self,
        path: str,
        *messages: str,
        closes: bool = False,
        if_match: Offset | None = None,
        producer: ProducerTuple | None = None,
    ) -> tuple[Append, Reply]:
        headers: dict[str, str] = {}
        if messages:
            headers["Content-Type"] = content_type(path)
        if closes:
            headers["Stream-Closed"] = "true"
        if if_match is not None:
            headers["If-Match"] = f'"{if_match}"'
        if producer is not None:
            headers |= {
                "Producer-Id": producer.id,
                "Producer-Epoch": str(producer.epoch),
                "Producer-Seq": str(producer.seq),
            }
        call = Append(
            client=self.client,
            node=self.node.name,
            path=path,
            messages=messages,
            closes=closes,
            if_match=if_match,
            producer=producer,
        )
        with self.recorder.record(call):
            body = encode_messages(path, messages) if messages else b""
            reply = await self.connection.request("POST", f"/v1/stream/{path}", headers, body)
            take_tail(call, reply)
            call.duplicate = producer is not None and reply.status == 204
        return call, reply

    async def delete(self, path: str) -> None:
        with self.recorder.record(Delete(client=self.client, node=self.node.name, path=path)) as call:
            call.refusal = (await self.connection.request("DELETE", f"/v1/stream/{path}")).refusal

    async def head(self, path: str) -> Head:
        with self.recorder.record(Head(client=self.client, node=self.node.name, path=path)) as call:
            take_tail(call, await self.connection.request("HEAD", f"/v1/stream/{path}"))
        return call

    async def read(self, position: Position, live: str = "") -> None:
        path, since = position.path, position.since
        call = Read(client=self.client, node=self.node.name, path=path, since=since, live=bool(live))
        with self.recorder.record(call):
            reply = await self.connection.request("GET", target(path, position.offset, live))
            take_tail(call, reply)
            if call.refusal is None and call.next is not None:
                call.messages = position.advance(reply.body, call.next)
                call.next = position.since
                call.up_to_date = reply.says("stream-up-to-date")
            else:
                position.reset()

    async def read_tail(self, path: str, count: int) -> None:
        """Read the last messages of a JSON stream: one of text counts appends instead."""
        with self.recorder.record(Read(client=self.client, node=self.node.name, path=path, tail=count)) as call:
            reply = await self.connection.request("GET", f"/v1/stream/{path}?tail={count}")
            take_tail(call, reply)
            if call.refusal is None:
                call.messages, _ = decode_messages(path, reply.body)
                call.up_to_date = reply.says("stream-up-to-date")


class Writer(StreamWorker):
    """Appends without a number, and so never sends anything again; some appends depend on the end of the stream."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.tails: dict[str, Offset] = {}

    async def step(self) -> None:
        path = self.chance.choice(self.scope.streams)
        messages = [self.make_message() for _ in range(self.chance.choice((1, 1, 1, 2, 5)))]
        condition = self.tails.get(path) if self.chance.random() < 0.4 else None
        call, _ = await self.append(path, *messages, if_match=condition)
        if call.next is not None:
            self.tails[path] = call.next
        if call.refusal == "stream_not_found":
            self.tails.pop(path, None)
            await self.create(path)


class Producer(StreamWorker):
    """Numbers its appends, and sends each until it is answered. Sometimes another instance of it takes over.

    It sends an append to a mortal stream only once: the next incarnation does not know the number, and would store the
    messages again. Without an answer, the number may be taken, and so the next append begins a new epoch.
    """

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.last: dict[str, ProducerTuple] = {}
        self.pending: tuple[str, tuple[str, ...], ProducerTuple] | None = None

    async def step(self) -> None:
        if self.pending is None:
            self.pending = self._plan(self.chance.choice(self.scope.streams))
        path, messages, producer = self.pending
        try:
            call, reply = await self.append(path, *messages, producer=producer)
        except Unanswered:
            if path in self.scope.mortal:
                self.pending = None
                epoch = max(producer.epoch, self.last.get(path, producer).epoch)
                self.last[path] = ProducerTuple(self.name, epoch + 1, -1)
            raise
        self.pending = None
        if call.refusal is None:
            self.last[path] = producer
            if path in self.scope.kept and self.chance.random() < 0.05:  # as if the reply was lost
                await self.append(path, *messages, producer=producer)
        elif call.refusal == "stream_not_found":
            await self.create(path)
        elif call.refusal == "producer_gap":  # another incarnation, which does not know this producer
            seq = int(reply.headers["producer-expected-seq"]) - 1
            self.last[path] = ProducerTuple(self.name, producer.epoch, seq)

    def _plan(self, path: str) -> tuple[str, tuple[str, ...], ProducerTuple]:
        last = self.last.get(path, ProducerTuple(self.name, 0, -1))
        draw = self.chance.random()
        messages = tuple(self.make_message() for _ in range(self.chance.choice((1, 1, 3))))
        if draw < 0.02:
            return path, messages, ProducerTuple(self.name, last.epoch + 1, 0)
        if draw < 0.04 and last.epoch:  # an instance that was replaced, and does not know it
            return path, messages, ProducerTuple(self.name, last.epoch - 1, last.seq + 1)
        return path, messages, ProducerTuple(self.name, last.epoch, last.seq + 1)


class Closer(StreamWorker):
    """Closes and deletes streams, and creates them again."""

    async def step(self) -> None:
        path = self.chance.choice(self.scope.mortal)
        match self.chance.choice(
            ("append", "append", "close", "close with data", "delete", "create", "create", "head")
        ):
            case "append":
                await self.append(path, self.make_message())
            case "close":
                await self.append(path, closes=True)
            case "close with data":
                await self.append(path, self.make_message(), closes=True)
            case "delete":
                await self.delete(path)
            case "create":
                await self.create(path)
            case _:
                await self.head(path)


class Reader(StreamWorker):
    """Reads page by page, by long-poll or from the beginning, and asks for the end or the last messages."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.positions = {path: Position(path) for path in self.scope.streams}

    async def step(self) -> None:
        path = self.chance.choice(self.scope.streams)
        position = self.positions[path]
        draw = self.chance.random()
        if draw < 0.2:
            await self.head(path)
            return
        if draw < 0.3 and is_json(content_type(path)):
            await self.read_tail(path, self.chance.choice((1, 2, 7, 50)))
            return
        if draw < 0.35:
            position.reset()
        await self.read(position, "long-poll" if position.offset is not None and draw > 0.9 else "")


class Tailer(HttpWorker):
    """Follows one stream by SSE, and continues at its offset after every disconnect."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.position = Position(self.chance.choice(self.scope.streams))

    async def work(self) -> None:
        position, began = self.position, self.recorder.clock()
        path = position.path
        parser = BatchParser(content_type(path), base64=False)
        async for reply in self.connection.stream(target(path, position.offset, "sse")):
            if reply.refusal is not None:
                read = Read(client=self.client, node=self.node.name, path=path, live=True, start=began)
                read.refusal = reply.refusal
                self.recorder.add(read)
                position.reset()
                return
            for batch in parser.feed(reply.body):
                read = Read(client=self.client, node=self.node.name, path=path, live=True, start=began)
                read.since = position.since
                read.messages = position.advance(batch.data, Offset.parse(batch.offset))
                read.next, read.up_to_date, read.closed = position.since, batch.up_to_date, batch.closed
                self.recorder.add(read)
            if parser.deleted:
                position.reset()
                return
