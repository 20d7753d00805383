"""Clients of the sync protocol: each submits its events until they are committed, and follows its partitions."""

import asyncio
from collections import deque
from random import Random
from typing import Any

import msgspec

from mainstem.testing.history.calls import Broadcast, Submit, SyncPage
from mainstem.testing.history.payloads import ReceivedEvent
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.clients import Client, repeat
from mainstem.testing.simulation.network import ConnectionLost, Network, WebSocket

PARTITIONS = ("p", "q", "r")


class PartitionName(msgspec.Struct):
    """What a client looks at in a snapshot: whose it is."""

    partition: str


class Payload(msgspec.Struct):
    """All fields of the payloads that a client looks at."""

    results: list[dict[str, Any]] = []
    events: list[ReceivedEvent] = []
    next_since_committed_id: int = 0
    sync_to_committed_id: int = 0
    has_more: bool = False
    snapshots: list[PartitionName] = []
    history_truncated: list[str] = []


class ServerMessage(msgspec.Struct):
    type: str
    payload: msgspec.Raw
    msg_id: str | int | None = None


_decode_message = msgspec.json.Decoder(ServerMessage).decode
_decode_payload = msgspec.json.Decoder(Payload).decode
_decode_event = msgspec.json.Decoder(ReceivedEvent).decode


Draft = tuple[str, tuple[str, ...], str]
"""The id of an event, its partitions, and its JSON text."""


class SyncClient(Client):
    actions_max = 2  # each is a whole connection

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        super().__init__(name, random, recorder)
        self.drafts: deque[Draft] = deque()
        """Events that may not be committed yet."""
        self.cursors: dict[tuple[str, ...], int] = {}
        """How far the client knows each set of partitions."""
        self._events = 0
        self._connections = 0

    async def act(self, network: Network) -> None:
        if len(self.drafts) < 4:
            for _ in range(self.random.randrange(4)):
                self._make_draft()
        await Session(self, network).run(self.random.expovariate(2))

    async def settle(self, network: Network) -> None:
        while self.drafts:
            await Session(self, network).run(1.0)

    def _make_draft(self) -> None:
        self._events += 1
        partitions = tuple(sorted(self.random.sample(PARTITIONS, self.random.choice((1, 1, 2)))))
        size = 0 if self.random.random() < 0.9 else self.random.randrange(5_000)
        id_ = f"{self.name}-{self._events}"
        self.drafts.append((id_, partitions, f'{{"x":"{repeat(id_, size)}"}}'))

    def next_connection(self) -> str:
        self._connections += 1
        return f"{self.name}/{self._connections}"


class Session:
    """One connection of a client."""

    def __init__(self, client: SyncClient, network: Network) -> None:
        self.client = client
        self.recorder = client.recorder
        self.name = client.next_connection()
        self._network = network
        self._connection: WebSocket
        self._opened = 0.0
        self._submits: dict[str, list[Submit]] = {}
        self._page: SyncPage | None = None
        self._messages = 0
        self._wanted = tuple(sorted(client.random.sample(PARTITIONS, client.random.choice((1, 2, 3)))))

    async def run(self, seconds: float) -> None:
        self._opened = self.recorder.clock()
        try:
            async with asyncio.timeout(seconds + 1), self._network.socket("/v1/sync") as self._connection:
                self._send("connect", {"token": "", "client_id": self.client.name})
                self._sync(0 if self.client.random.random() < 0.5 else self.client.cursors.get(self._wanted, 0))
                ending = self._opened + seconds
                while self.recorder.clock() < ending or self._submits:
                    self._submit_some()
                    try:
                        async with asyncio.timeout(self.client.random.expovariate(10)):
                            while True:
                                self._take(_decode_message(await self._receive()))
                    except TimeoutError:
                        continue
        except (TimeoutError, ConnectionLost):
            return

    async def _receive(self) -> bytes:
        message = await self._connection.receive()
        if message["type"] != "websocket.send":
            raise ConnectionLost
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text.encode()

    def _send(self, type_: str, payload: dict[str, Any]) -> str:
        self._messages += 1
        msg_id = f"m{self._messages}"
        text = msgspec.json.encode(
            {"type": type_, "payload": payload, "protocol_version": "1.0", "msg_id": msg_id}
        ).decode()
        self._connection.send({"type": "websocket.receive", "text": text})
        return msg_id

    def _sync(self, since: int) -> None:
        begins = self._page is None
        self._page = SyncPage(
            client=self.name, partitions=self._wanted, since=since, subscribes=begins, start=self.recorder.clock()
        )
        payload: dict[str, Any] = {"partitions": self._wanted, "since_committed_id": since}
        if begins:
            payload["subscription_partitions"] = self._wanted
        self._send("sync", payload)

    def _submit_some(self) -> None:
        if self._submits or not self.client.drafts:
            return
        calls = [
            Submit(client=self.name, id=id_, partitions=partitions, content=content, start=self.recorder.clock())
            for id_, partitions, content in list(self.client.drafts)[: self.client.random.choice((1, 2, 3))]
        ]
        self.recorder.calls.extend(calls)
        events = [
            {"id": call.id, "partitions": call.partitions, "event": msgspec.Raw(call.content.encode())}
            for call in calls
        ]
        self._submits[self._send("submit_events", {"events": events})] = calls

    def _take(self, message: ServerMessage) -> None:
        if message.type == "submit_events_result":
            self._take_results(str(message.msg_id), _decode_payload(message.payload))
        elif message.type == "sync_response":
            self._take_page(_decode_payload(message.payload))
        elif message.type == "event_broadcast":
            event = _decode_event(message.payload).seen()
            self.recorder.add(Broadcast(client=self.name, event=event, start=self._opened))
        elif message.type == "error":
            raise ConnectionLost

    def _take_results(self, msg_id: str, payload: Payload) -> None:
        for call, result in zip(self._submits.pop(msg_id), payload.results, strict=True):
            call.end = self.recorder.clock()
            if result["status"] == "committed":
                call.committed_id = result["committed_id"]
            else:
                call.refusal = result["reason"]
            draft = (call.id, call.partitions, call.content)
            if draft in self.client.drafts:
                self.client.drafts.remove(draft)

    def _take_page(self, payload: Payload) -> None:
        page = self._page
        assert page is not None
        page.events = tuple(event.seen() for event in payload.events)
        page.next, page.sync_to, page.has_more = (
            payload.next_since_committed_id,
            payload.sync_to_committed_id,
            payload.has_more,
        )
        page.truncated = (*(snapshot.partition for snapshot in payload.snapshots), *payload.history_truncated)
        self.recorder.add(page)
        if page.has_more:
            self._sync(page.next)
        else:
            self.client.cursors[self._wanted] = page.next
