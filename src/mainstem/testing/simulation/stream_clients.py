"""Clients of streams: writers, producers that append exactly once, and readers of every kind."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from mainstem.client.core.sse import BatchParser
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import Append, Create, Delete, Head, Read, size_of
from mainstem.testing.history.payloads import Position, content_type, encode_messages, target
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.clients import Client, read_refusal, repeat
from mainstem.testing.simulation.network import Network

PATHS = ("a/text", "a/json", "b/json")
TRIMMED = "trimmed/text"
"""A stream with a retention."""
BRIEF = "brief/json"
"""A stream with a TTL. Producers do not use it: they repeat appends, and its next incarnation does not know them."""
KEPT = ("a/text", BRIEF)
"""Streams that nobody deletes."""
BYTES_KEPT = 400
"""The retention. It has room for the largest append, so that it is never exceeded for long."""
SMALL_BYTES = 120
"""About the largest message of a stream with a retention."""
LARGE_BYTES = 9_000
"""About the largest message of another stream: more than a block of the journal."""
TTL_S = 1


class StreamMissing(Exception):
    """The stream does not exist, or does not have the offset any more."""


def read_offset(headers: dict[str, str], name: str = "stream-next-offset") -> Offset | None:
    text = headers.get(name)
    return None if text is None else Offset.parse(text)


class StreamClient(Client):
    """What writers and readers of streams share."""

    paths: ClassVar[Sequence[str]] = (*PATHS, TRIMMED, BRIEF)
    _messages = 0

    def make_message(self, path: str) -> str:
        self._messages += 1
        size_max = SMALL_BYTES if path == TRIMMED else LARGE_BYTES
        size = 0 if self.random.random() < 0.5 else self.random.randrange(size_max)
        return f'"{repeat(f"{self.name}-{self._messages}", size)}"'

    def make_messages(self, path: str) -> tuple[str, ...]:
        return tuple(self.make_message(path) for _ in range(self.random.choice((1, 1, 1, 2, 3))))

    async def create(self, network: Network, path: str) -> None:
        call = Create(client=self.name, path=path)
        headers = {"content-type": content_type(path)}
        if path == BRIEF:
            call.ttl = TTL_S
            headers["stream-ttl"] = str(TTL_S)
        elif path == TRIMMED:
            call.bytes_kept = BYTES_KEPT
            headers["stream-retention"] = f"max-bytes={BYTES_KEPT}"
        await self.put(network, call, headers)

    async def put(self, network: Network, call: Create, headers: dict[str, str]) -> None:
        with self.recorder.record(call):
            response = await network.request("PUT", f"/v1/stream/{call.path}", headers)
            call.refusal = read_refusal(response)
            call.new = response.status == 201
            call.next = read_offset(response.headers)

    async def append(self, network: Network, call: Append) -> Append:
        headers = {"content-type": content_type(call.path)}
        if call.if_match is not None:
            headers["if-match"] = str(call.if_match)
        if call.closes:
            headers["stream-closed"] = "true"
        if call.producer is not None:
            headers["producer-id"] = call.producer.id
            headers["producer-epoch"] = str(call.producer.epoch)
            headers["producer-seq"] = str(call.producer.seq)
        body = encode_messages(call.path, call.messages) if call.messages else b""
        with self.recorder.record(call):
            response = await network.request("POST", f"/v1/stream/{call.path}", headers, body)
            call.refusal = read_refusal(response)
            call.duplicate = call.producer is not None and response.status == 204 and bool(call.messages)
            call.next = read_offset(response.headers)
            call.closed = response.headers.get("stream-closed") == "true"
        return call

    async def head(self, network: Network, path: str) -> Head:
        with self.recorder.record(Head(client=self.name, path=path)) as call:
            response = await network.request("HEAD", f"/v1/stream/{path}")
            call.refusal = read_refusal(response)
            call.next = read_offset(response.headers)
            call.closed = response.headers.get("stream-closed") == "true"
            call.earliest = read_offset(response.headers, "stream-earliest-offset")
        return call

    async def read(self, network: Network, position: Position, live: str = "") -> Read:
        """Read a page, and advance the position. Raises `StreamMissing` if the server refuses the request."""
        call = Read(client=self.name, path=position.path, since=position.since, live=bool(live))
        with self.recorder.record(call):
            response = await network.request("GET", target(position.path, position.offset, live))
            call.refusal = read_refusal(response)
            call.earliest = read_offset(response.headers, "stream-earliest-offset")
            assert call.earliest is not None or call.refusal != "offset_gone", "the reply says where to continue"
            end = read_offset(response.headers)
            if call.refusal is None and end is not None:
                take_page(call, position, response.body, end)
                call.up_to_date = response.headers.get("stream-up-to-date") == "true"
                call.closed = response.headers.get("stream-closed") == "true"
        if call.refusal is not None:
            position.reset()
            raise StreamMissing
        return call

    async def read_all(self, network: Network, path: str) -> None:
        """Read a stream from its beginning to its end."""
        position = Position(path)
        try:
            while not (await self.read(network, position)).up_to_date:
                continue
        except StreamMissing:
            return

    async def delete(self, network: Network, path: str) -> None:
        with self.recorder.record(Delete(client=self.name, path=path)) as call:
            call.refusal = read_refusal(await network.request("DELETE", f"/v1/stream/{path}"))


def take_page(call: Read, position: Position, data: bytes, end: Offset) -> None:
    """Note the messages of a page, and advance the position."""
    call.messages = position.advance(data, end)
    call.next = position.since
    if call.path == TRIMMED and call.since is None and call.next is not None:
        call.earliest = call.next._replace(position=call.next.position - size_of(call.messages))


class Writer(StreamClient):
    """Appends, with and without a condition, and now and then creates, closes and deletes streams."""

    async def act(self, network: Network) -> None:
        path = self.random.choice(self.paths)
        choice = self.random.random()
        if choice < 0.1:
            await self.create(network, path)
        elif choice < 0.13 and path not in KEPT:
            await self.delete(network, path)
        else:
            call = Append(client=self.name, path=path, messages=self.make_messages(path))
            if choice < 0.16 and path != BRIEF:
                call.closes = True
            elif choice < 0.3:
                call.if_match = (await self.head(network, path)).next
            await self.append(network, call)
            if call.refusal == "stream_not_found":
                await self.create(network, path)


class Producer(StreamClient):
    """Appends exactly once: it repeats an append until it knows the outcome."""

    paths = (*PATHS, TRIMMED)

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        super().__init__(name, random, recorder)
        self._path = self.random.choice(self.paths)
        self._epoch = 0
        self._seq = 0
        self._messages_sent: tuple[str, ...] = ()
        self._in_doubt = False
        """Whether the last append was not answered: its connection or the server was lost."""

    async def settle(self, network: Network) -> None:
        while self._messages_sent:
            await self.act(network)

    async def act(self, network: Network) -> None:
        if self._in_doubt and self._seq == 0 and self._path not in KEPT:
            # If it was deleted and created again meanwhile, the stream would accept the first number again.
            self._begin_again()
        if not self._messages_sent:
            self._messages_sent = self.make_messages(self._path)
        producer = ProducerTuple(self.name, self._epoch, self._seq)
        call = Append(client=self.name, path=self._path, messages=self._messages_sent, producer=producer)
        self._in_doubt = True
        await self.append(network, call)
        self._in_doubt = False
        if call.refusal is None:
            self._seq += 1
            self._messages_sent = ()
        elif call.refusal == "stream_not_found":
            await self.create(network, self._path)
            self._begin_again()
        elif call.refusal not in ("store_full", "overloaded", "shutting_down"):
            self._begin_again()

    def _begin_again(self) -> None:
        """Begin a new epoch, maybe of another stream, because this append cannot succeed any more."""
        self._path = self.random.choice(self.paths)
        self._epoch += 1
        self._seq = 0
        self._messages_sent = ()


class Reader(StreamClient):
    """Follows streams by pages, by long-poll and by SSE, from where it was."""

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        super().__init__(name, random, recorder)
        self._positions = {path: Position(path) for path in self.paths}

    async def act(self, network: Network) -> None:
        path = self.random.choice(self.paths)
        position, choice = self._positions[path], self.random.random()
        if choice < 0.1:
            await self.head(network, path)
            return
        if self.random.random() < 0.2:
            position.reset()
        try:
            if choice < 0.4 or path == BRIEF:  # a live reader would keep it alive
                await self.read(network, position)
            elif choice < 0.7:
                await self.read(network, position, "long-poll")
            else:
                await self._follow(network, position)
        except StreamMissing:
            return

    async def settle(self, network: Network) -> None:
        for path in self.paths:
            await self.read_all(network, path)

    async def _follow(self, network: Network, position: Position) -> None:
        """Read events until a while has passed, or the connection ends. Each may have been on its way for long."""
        path, start = position.path, self.recorder.clock()
        parser = BatchParser(content_type(path), base64=False)
        request = network.stream("GET", target(path, position.offset, "sse"))
        try:
            async with asyncio.timeout(self.random.expovariate(2)), request as (status, _, connection):
                if status != 200:
                    position.reset()
                    raise StreamMissing
                while True:
                    message = await connection.receive()
                    for batch in parser.feed(message.get("body", b"")):
                        call = Read(client=self.name, path=path, since=position.since, live=True, start=start)
                        take_page(call, position, batch.data, Offset.parse(batch.offset))
                        call.up_to_date, call.closed = batch.up_to_date, batch.closed
                        self.recorder.add(call)
        except TimeoutError:
            return
