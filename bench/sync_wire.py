"""A cheap implementation of the sync protocol for the load generator: simple frames, and messages built by hand."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from collections.abc import Sequence

import msgspec

from bench.payloads import make_message
from bench.wire import HEAD_END, HOST, Connection, UnexpectedReply, check_status

SYNC_PATH = "/v1/sync"
TEXT, PING, PONG = 0x81, 0x89, 0x8A
# Clients must mask what they send; a key of zeros leaves it unchanged.
NO_MASK = bytes(4)

# The server writes the type first, so it can be read without parsing. Anything else counts as unexpected.
CONNECTED = b'{"type":"connected"'
RESULT = b'{"type":"submit_events_result"'
BROADCAST = b'{"type":"event_broadcast"'
PAGE = b'{"type":"sync_response"'
COMMITTED = b'"status":"committed"'
EVENT = make_message("event")


def frame(payload: bytes, opcode: int = TEXT) -> bytes:
    size = len(payload)
    if size < 126:
        return b"%c%c%b%b" % (opcode, 0x80 | size, NO_MASK, payload)
    if size < 65_536:
        return b"%c\xfe%b%b%b" % (opcode, size.to_bytes(2, "big"), NO_MASK, payload)
    return b"%c\xff%b%b%b" % (opcode, size.to_bytes(8, "big"), NO_MASK, payload)


def build_message(kind: str, payload: bytes) -> bytes:
    return frame(b'{"type":"%b","payload":%b,"protocol_version":"1.0"}' % (kind.encode(), payload))


def build_sync(partition: str, *, limit: int = 500, subscribe: bool = False) -> bytes:
    """Build a request for a page of the partition from its start, or for a subscription without a page."""
    if subscribe:
        payload = b'{"partitions":[],"since_committed_id":0,"subscription_partitions":["%b"]}' % partition.encode()
    else:
        payload = b'{"partitions":["%b"],"since_committed_id":0,"limit":%d}' % (partition.encode(), limit)
    return build_message("sync", payload)


def build_submit(events: Sequence[bytes]) -> bytes:
    return build_message("submit_events", b'{"events":[%b]}' % b",".join(events))


class EventSource:
    """Makes drafts of 100-byte events, each with a new id."""

    def __init__(self) -> None:
        self.prefix = os.urandom(6).hex().encode()
        self.numbers = itertools.count()

    def make(self, partition: bytes) -> bytes:
        return b'{"id":"%b-%d","partitions":["%b"],"event":%b}' % (self.prefix, next(self.numbers), partition, EVENT)


class WelcomeLimits(msgspec.Struct):
    messages_per_second_max: int


class WelcomePayload(msgspec.Struct):
    limits: WelcomeLimits


class Welcome(msgspec.Struct):
    payload: WelcomePayload


class SyncConnection(Connection):
    """A client of the sync protocol. It is `ready` once it is connected and, if it has a subscription, subscribed."""

    def __init__(self, outcome: asyncio.Future[None], client_id: str, subscription: str | None = None) -> None:
        super().__init__(outcome)
        self.client_id = client_id
        self.subscription = subscription
        self.upgraded = False
        self.messages_per_s_max = 0
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        lines = [
            f"GET {SYNC_PATH} HTTP/1.1",
            f"Host: {HOST}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        ]
        self.transport.write("\r\n".join(lines).encode() + HEAD_END)

    def _take(self, data: bytes) -> None:
        if not self.upgraded:
            head, end, rest = data.partition(HEAD_END)
            if not end:
                self._pending = data
                return
            check_status(head, rest, b"101")
            self.upgraded = True
            self.transport.write(build_message("connect", b'{"client_id":"%b","token":""}' % self.client_id.encode()))
            data = rest
        self._take_frames(data)

    def _take_frames(self, data: bytes) -> None:
        at, end = 0, len(data)
        while end - at >= 2:
            size, start = data[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif size == 127:
                size, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if end < start + size:
                break
            if data[at] == TEXT:
                self._dispatch(data[start : start + size])
            else:
                self._handle_control(data[at], data[start : start + size])
            at = start + size
        self._pending = data[at:]
        self.finish_read()

    def _handle_control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.transport.write(frame(payload, PONG))
        elif opcode != PONG:
            raise UnexpectedReply(f"unexpected frame {opcode:#x}: {payload[:200]!r}")

    def _dispatch(self, message: bytes) -> None:
        if self.ready.done():
            self.handle_message(message)
            return
        if message.startswith(CONNECTED):
            welcome = msgspec.json.decode(message, type=Welcome)
            self.messages_per_s_max = welcome.payload.limits.messages_per_second_max
            if self.subscription is None:
                self.ready.set_result(None)
            else:
                self.transport.write(build_sync(self.subscription, subscribe=True))
        elif message.startswith(PAGE):
            self.ready.set_result(None)
        else:
            raise_unexpected(message)

    def handle_message(self, message: bytes) -> None:
        """Handle a complete message that arrives after the client is ready."""
        raise_unexpected(message)

    def finish_read(self) -> None:
        """Called after all messages of one read have been handled, so that replies can be sent together."""


def raise_unexpected(message: bytes) -> None:
    raise UnexpectedReply(f"unexpected message: {message[:300]!r}")


def check_results(message: bytes, events: int) -> None:
    """Check the reply to a submit: `events` events, all of them committed."""
    if not message.startswith(RESULT) or message.count(COMMITTED) != events:
        raise_unexpected(message)


async def wait_until_ready(connections: Sequence[SyncConnection], outcome: asyncio.Future[None]) -> None:
    for connection in connections:
        await asyncio.wait([connection.ready, outcome], return_when=asyncio.FIRST_COMPLETED)
        if outcome.done():
            outcome.result()
