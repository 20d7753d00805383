"""Clients of streams. They live longer than the server, and record what they ask and learn."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar

import msgspec

from mainstem.client.core.sse import BatchParser
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import Append, Create, Delete, Head, Read
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.network import ConnectionLost, Network, Response

PATHS = ("texts/a", "texts/b", "json/a", "json/b")
KEPT = "texts/a"
"""A stream that nobody deletes."""
LARGE_BYTES = 6_000
"""The largest message: more than a block of the journal."""
SMALL_BYTES = 200
"""The largest message in a text. A page ends anywhere in a text, so that the whole text must fit into a page."""
UNCERTAIN = frozenset(["store_failed", "error"])
"""The codes of errors after which a write may have taken effect, or may yet."""

_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Problem(msgspec.Struct):
    code: str = "error"


class OutcomeUnknown(Exception):
    """The server does not know either whether the call took effect."""


class Client(ABC):
    """Acts again and again as long as a server lives, and continues with the next one."""

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        self.name = name
        self.random = random
        self.recorder = recorder

    async def run(self, network: Network, actions: int) -> None:
        for _ in range(actions):
            await asyncio.sleep(self.random.expovariate(40))
            try:
                await self.act(network)
            except (ConnectionLost, OutcomeUnknown):
                continue

    @abstractmethod
    async def act(self, network: Network) -> None:
        """Do one thing. Raises an error if its outcome is unknown."""

    async def settle(self, network: Network) -> None:
        """Find out what is uncertain. Nothing fails any more."""
        return


def content_type_of(path: str) -> str:
    return "application/json" if path.startswith("json/") else "text/plain"


def encode_messages(path: str, messages: Sequence[str]) -> bytes:
    if path.startswith("json/"):
        return f"[{','.join(messages)}]".encode()
    return "".join(f"{message}\n" for message in messages).encode()


def decode_messages(path: str, data: bytes) -> tuple[str, ...]:
    if path.startswith("json/"):
        return tuple(bytes(message).decode() for message in _decode_array(data or b"[]"))
    return tuple(data.decode().split("\n")[:-1])


def read_refusal(response: Response) -> str | None:
    """Return the code of an error; None if the response is a success. Raises an error if the outcome is unknown."""
    if response.status < 400:
        return None
    code = msgspec.json.decode(response.body, type=Problem).code if response.body else f"status {response.status}"
    if code in UNCERTAIN:
        raise OutcomeUnknown
    return code


def read_offset(headers: dict[str, str]) -> Offset | None:
    text = headers.get("stream-next-offset")
    return None if text is None else Offset.parse(text)


class StreamClient(Client):
    """What writers and readers of streams share."""

    paths: ClassVar[Sequence[str]] = PATHS
    _messages = 0

    def make_message(self, path: str) -> str:
        self._messages += 1
        json = path.startswith("json/")
        size = 0 if self.random.random() < 0.5 else self.random.randrange(LARGE_BYTES if json else SMALL_BYTES)
        text = f"{self.name}-{self._messages}{'.' * size}"
        return f'"{text}"' if json else text

    def make_messages(self, path: str) -> tuple[str, ...]:
        return tuple(self.make_message(path) for _ in range(self.random.choice((1, 1, 1, 2, 3))))

    async def create(self, network: Network, path: str) -> None:
        with self.recorder.record(Create(client=self.name, path=path)) as call:
            headers = {"content-type": content_type_of(path)}
            response = await network.request("PUT", f"/v1/stream/{path}", headers)
            call.refusal = read_refusal(response)
            call.new = response.status == 201
            call.next = read_offset(response.headers)

    async def append(self, network: Network, call: Append) -> Append:
        headers = {"content-type": content_type_of(call.path)}
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
            if response.status == 404:
                call.refusal = "stream_not_found"
            else:
                call.refusal = read_refusal(response)
            call.next = read_offset(response.headers)
            call.closed = response.headers.get("stream-closed") == "true"
        return call


class Writer(StreamClient):
    """Appends, with and without a condition, and now and then creates, closes and deletes streams."""

    async def act(self, network: Network) -> None:
        path = self.random.choice(self.paths)
        choice = self.random.random()
        if choice < 0.1:
            await self.create(network, path)
        elif choice < 0.13 and path != KEPT:
            with self.recorder.record(Delete(client=self.name, path=path)) as delete:
                delete.refusal = read_refusal(await network.request("DELETE", f"/v1/stream/{path}"))
        else:
            call = Append(client=self.name, path=path, messages=self.make_messages(path))
            if choice < 0.16:
                call.closes = True
            elif choice < 0.3:
                call.if_match = (await self.head(network, path)).next
            await self.append(network, call)
            if call.refusal == "stream_not_found":
                await self.create(network, path)


class Producer(StreamClient):
    """Appends exactly once: it repeats an append until it knows the outcome."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._path = self.random.choice(self.paths)
        self._epoch = 0
        self._seq = 0
        self._messages_sent: tuple[str, ...] = ()

    async def settle(self, network: Network) -> None:
        while self._messages_sent:
            await self.act(network)

    async def act(self, network: Network) -> None:
        if not self._messages_sent:
            self._messages_sent = self.make_messages(self._path)
        producer = ProducerTuple(self.name, self._epoch, self._seq)
        call = Append(client=self.name, path=self._path, messages=self._messages_sent, producer=producer)
        try:
            await self.append(network, call)
        except (ConnectionLost, OutcomeUnknown):
            if self._seq == 0 and self._path != KEPT:
                # If it is deleted and created again meanwhile, the stream would accept the first number again.
                self._begin_again()
            raise
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

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._at: dict[str, Offset | None] = {}

    async def act(self, network: Network) -> None:
        path = self.random.choice(self.paths)
        choice = self.random.random()
        if choice < 0.1:
            await self.head(network, path)
            return
        since = None if self.random.random() < 0.2 else self._at.get(path)
        try:
            if choice < 0.4:
                await self.read(network, path, since)
            elif choice < 0.7:
                await self.read(network, path, since, "&live=long-poll")
            else:
                await self._follow(network, path, since)
        except StreamMissing:
            self._at.pop(path, None)

    async def settle(self, network: Network) -> None:
        """Read every stream to its end."""
        for path in self.paths:
            since: Offset | None = None
            try:
                while not (page := await self.read(network, path, since)).up_to_date:
                    since = page.next
            except StreamMissing:
                continue

    async def read(self, network: Network, path: str, since: Offset | None, live: str = "") -> Read:
        with self.recorder.record(Read(client=self.name, path=path, since=since, live=bool(live))) as call:
            response = await network.request("GET", f"/v1/stream/{path}?offset={_name(since)}{live}")
            call.refusal = read_refusal(response)
            call.next = read_offset(response.headers)
            call.up_to_date = response.headers.get("stream-up-to-date") == "true"
            call.closed = response.headers.get("stream-closed") == "true"
            if response.status == 200:
                call.messages = decode_messages(path, response.body)
        if call.refusal is not None:
            raise StreamMissing
        self._at[path] = call.next
        return call

    async def _follow(self, network: Network, path: str, since: Offset | None) -> None:
        """Read events until a while has passed, or the connection ends. Each may have been on its way for long."""
        parser = BatchParser(content_type_of(path), base64=False)
        at, start = since, self.recorder.clock()
        target = f"/v1/stream/{path}?offset={_name(since)}&live=sse"
        try:
            async with asyncio.timeout(self.random.expovariate(2)), network.stream("GET", target) as connected:
                status, _, connection = connected
                if status != 200:
                    raise StreamMissing
                while True:
                    message = await connection.receive()
                    for batch in parser.feed(message.get("body", b"")):
                        call = Read(client=self.name, path=path, since=at, live=True, start=start)
                        call.messages = decode_messages(path, batch.data) if batch.data else ()
                        call.next, call.up_to_date, call.closed = (
                            Offset.parse(batch.offset),
                            batch.up_to_date,
                            batch.closed,
                        )
                        self.recorder.add(call)
                        self._at[path] = at = call.next
        except TimeoutError:
            return


class StreamMissing(Exception):
    """The stream does not exist, or not any more."""


def _name(offset: Offset | None) -> str:
    return "-1" if offset is None else str(offset)
