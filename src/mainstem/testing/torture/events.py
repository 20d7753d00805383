"""Recording clients of the sync protocol: they catch up, submit, receive broadcasts, and resubmit after faults."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from mainstem.streams.rules.offsets import Offset
from mainstem.sync.protocol.messages import VERSION
from mainstem.testing.history.calls import Broadcast, PartitionPage, Submit, SyncPage
from mainstem.testing.history.payloads import ReceivedEvent
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.torture.connections import ANSWER_S_MAX, Unanswered
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import EVERYTHING, Scope
from mainstem.testing.torture.workers import HttpWorker, Worker

PAGE = 50
PENDING_MAX = 50
IDLE_PAUSES = 2
"""How many pauses a client may wait for broadcasts."""


class Draft(msgspec.Struct, frozen=True):
    id: str
    partitions: tuple[str, ...]
    event: msgspec.Raw


class Message(msgspec.Struct):
    type: str
    payload: msgspec.Raw


class Page(msgspec.Struct):
    events: list[ReceivedEvent]
    next_since_committed_id: int
    sync_to_committed_id: int
    has_more: bool


class Result(msgspec.Struct):
    id: str
    status: str
    committed_id: int | None = None
    reason: str | None = None


class Results(msgspec.Struct):
    results: list[Result]


class SyncWorker(Worker):
    """One connection at a time. Its cursor and the drafts without an answer survive the connection."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.partitions = tuple(sorted(self.chance.sample(scope.partitions, self.chance.choice((1, 2, 3)))))
        self.cursor = scope.after
        self.pending: dict[str, Draft] = {}
        self.old: list[Draft] = []
        self.began = 0.0

    async def work_at(self, address: tuple[str, int]) -> None:
        host, port = address
        self.began = self.recorder.clock()
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                socket = await connect(
                    f"ws://{host}:{port}/v1/sync", proxy=None, ping_interval=None, compression=None, close_timeout=0.1
                )
        except (OSError, TimeoutError, WebSocketException) as error:
            raise Unanswered(f"cannot connect: {error!r}") from None
        try:
            await self._send(socket, "connect", {"client_id": self.name, "token": ""})
            await self._receive(socket, "connected")
            await self._catch_up(socket)
            while True:
                await self._step(socket)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise Unanswered(f"no answer: {error!r}") from None
        finally:
            socket.transport.abort()

    async def _step(self, socket: ClientConnection) -> None:
        draw = self.chance.random()
        if draw < 0.4:
            await self._submit(socket, self._choose_drafts())
        elif draw < 0.45:
            await self._catch_up(socket)
        else:
            await self._receive(socket, "", within_s=self.chance.uniform(0, IDLE_PAUSES * self.pause_s_max))

    # Submitting

    def _choose_drafts(self) -> list[Draft]:
        """Return drafts that were not answered, if there are any, or else new ones; rarely one that is known."""
        if self.pending and self.chance.random() < 0.9:
            return list(self.pending.values())[:PENDING_MAX]
        if self.old and self.chance.random() < 0.05:
            return [self.chance.choice(self.old)]
        drafts = []
        for _ in range(self.chance.choice((1, 1, 2, 5, 20))):
            names = tuple(sorted(self.chance.sample(self.scope.partitions, self.chance.choice((1, 1, 2)))))
            text = self.make_message()
            drafts.append(Draft(text.strip('"').rstrip("."), names, msgspec.Raw(f'{{"text":{text}}}'.encode())))
        if self.old and self.chance.random() < 0.03:  # another event with an id that is taken
            taken = self.chance.choice(self.old)
            drafts.append(msgspec.structs.replace(taken, event=msgspec.Raw(b'{"text":"other"}')))
        return drafts

    async def _submit(self, socket: ClientConnection, drafts: list[Draft]) -> None:
        calls = {}
        for draft in drafts:
            if bytes(draft.event) != b'{"text":"other"}':
                self.pending[draft.id] = draft
            call = Submit(
                client=self.client,
                node=self.node.name,
                start=self.recorder.clock(),
                id=draft.id,
                partitions=draft.partitions,
                content=bytes(draft.event).decode(),
            )
            self.recorder.calls.append(call)
            calls[draft.id] = call
        await self._send(socket, "submit_events", {"events": drafts})
        body = await self._receive(socket, "submit_events_result")
        now = self.recorder.clock()
        for result in msgspec.json.decode(body, type=Results).results:
            call = calls[result.id]
            call.committed_id, call.end = result.committed_id, now
            if result.status != "committed":
                call.refusal = result.reason or result.status
        for draft in drafts:
            if self.pending.pop(draft.id, None) is not None and len(self.old) < 1_000:
                self.old.append(draft)

    # Receiving

    async def _catch_up(self, socket: ClientConnection) -> None:
        has_more = True
        while has_more:
            call = SyncPage(
                client=self.client, node=self.node.name, partitions=self.partitions, since=self.cursor, subscribes=True
            )
            with self.recorder.record(call):
                await self._send(
                    socket,
                    "sync",
                    {
                        "partitions": self.partitions,
                        "since_committed_id": call.since,
                        "limit": PAGE,
                        "subscription_partitions": self.partitions,
                    },
                )
                page = msgspec.json.decode(await self._receive(socket, "sync_response"), type=Page)
                call.events = tuple(event.seen() for event in page.events)
                call.next, call.sync_to = page.next_since_committed_id, page.sync_to_committed_id
                has_more = call.has_more = page.has_more
            self.cursor = call.next if has_more else call.sync_to

    async def _receive(self, socket: ClientConnection, wanted: str, within_s: float = ANSWER_S_MAX) -> bytes:
        """Return the payload of the next message of this type, and record the broadcasts before it.

        Without a type, record what arrives in this time.
        """
        try:
            async with asyncio.timeout(within_s):
                while True:
                    message = msgspec.json.decode(await socket.recv(), type=Message)
                    if message.type == "event_broadcast":
                        event = msgspec.json.decode(message.payload, type=ReceivedEvent).seen()
                        self.recorder.add(
                            Broadcast(client=self.client, node=self.node.name, start=self.began, event=event)
                        )
                        self.cursor = max(self.cursor, event.committed_id)
                    elif message.type == wanted:
                        return bytes(message.payload)
                    else:
                        raise Unanswered(f"{message.type} in place of {wanted}: {bytes(message.payload)!r}")
        except TimeoutError:
            if wanted:
                raise
            return b""

    async def _send(self, socket: ClientConnection, type_: str, payload: Any) -> None:
        message = {"type": type_, "payload": payload, "protocol_version": VERSION}
        await socket.send(msgspec.json.encode(message).decode())


class PartitionReader(HttpWorker):
    """Reads partitions over HTTP, page by page, or from the beginning."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.cursors = dict.fromkeys(scope.partitions, scope.after)

    async def step(self) -> None:
        name = self.chance.choice(self.scope.partitions)
        since = self.scope.after if self.chance.random() < 0.05 else self.cursors[name]
        call = PartitionPage(client=self.client, node=self.node.name, partition=name, since=since)
        with self.recorder.record(call):
            reply = await self.connection.request("GET", f"/v1/partition/{name}?offset={Offset(0, since)}")
            call.refusal, end = reply.refusal, reply.next_offset
            if call.refusal is None and end is not None:
                page = msgspec.json.decode(reply.body, type=list[ReceivedEvent])
                call.events, call.next = tuple(event.seen() for event in page), end.position
                call.up_to_date = reply.says("stream-up-to-date")
        self.cursors[name] = call.next
