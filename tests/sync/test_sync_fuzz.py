"""Whatever is sent, the server replies with a documented code and keeps working."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.testing.loops import new_runner
from tests.support.examples import examples
from tests.support.sync_peers import BINARY, TEXT, ConnectionEnded, Peer, draft, encode_frame, envelope

pytestmark = pytest.mark.slow

# The error table: whether the connection stays open (for bad_request, unless the message was too large).
KEEPS = {"bad_request": True, "forbidden": True, "validation_failed": True, "rate_limited": True}
CLOSES = {"protocol_version_unsupported": 1002, "auth_failed": 1008}
REPLIES = {
    "connected",
    "submit_events_result",
    "event_committed",
    "event_rejected",
    "sync_response",
    "heartbeat_ack",
    "error",
}
REASONS = {"validation_failed", "forbidden"}

VALID = [
    envelope("connect", {"token": "", "client_id": "c"}, msg_id="m"),
    envelope("submit_events", {"events": [draft("fuzz", {"n": 1.5, "t": "é"}, id="e1")]}, msg_id=1),
    envelope("submit_event", draft(["fuzz", "other"], {}, id="e2")),
    envelope("sync", {"partitions": ["fuzz"], "since_committed_id": 0, "subscription_partitions": ["x"], "limit": 50}),
    envelope("heartbeat", {}),
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["1.0", "fuzz", "e1", "sync", "", "\ud800", "\udfff", "\0", "e\u0301"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "partitions", "event", "events", "client_id", "since_committed_id", "partition", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@st.composite
def changed_messages(draw) -> str:
    """A valid message in which one value, at any depth, is replaced or removed."""
    message = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    at: Any = message
    while True:
        key = draw(st.sampled_from(sorted(at))) if isinstance(at, dict) else draw(st.integers(0, len(at) - 1))
        if at[key] and isinstance(at[key], dict | list) and draw(st.booleans()):
            at = at[key]
            continue
        if draw(st.booleans()):
            at[key] = draw(values)
        else:
            del at[key]
        return json.dumps(message)


ODD = [b'"', b"{", b"}", b"\\", b"\\ud800", b"1e999", b",,"]


@st.composite
def changed_bytes(draw) -> bytes:
    """A valid message with some bytes replaced, removed or inserted."""
    data = bytearray(json.dumps(draw(st.sampled_from(VALID))).encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(at + 6, len(data))))
        data[at:end] = draw(
            st.binary(max_size=4) | st.sampled_from([b'"', b"{", b"}", b"\\", b"\\ud800", b"1e999", b",,"])
        )
    return bytes(data)


messages = (
    st.sampled_from(VALID).map(lambda message: json.dumps(message).encode())
    | changed_messages().map(str.encode)
    | changed_bytes()
    | values.map(json.dumps).map(str.encode)
)


class Bench:
    """An event loop, the server under test, and a healthy connection next to the one that misbehaves."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.runner = new_runner()
        self.address = address
        self.healthy = self.runner.run(self._join())

    async def _join(self) -> Peer:
        peer = await Peer.dial(self.address)
        await peer.connect()
        return peer

    def close(self) -> None:
        self.runner.run(self.healthy.hang_up())
        self.runner.close()

    async def tell(self, frames: list[tuple[int, bytes]], connected: bool) -> None:
        async with await Peer.dial(self.address) as peer:
            if connected:
                await peer.connect()
            await peer.send_bytes(b"".join(encode_frame(opcode, data) for opcode, data in frames))
            for opcode, data in frames:
                if await self._ends_with(peer, opcode, data):
                    break
            else:
                assert await peer.flush() == [], "there is one reply per message, and the connection stays open"
        await self.healthy.send("heartbeat", {})
        assert (await self.healthy.next())["type"] == "heartbeat_ack"

    async def _ends_with(self, peer: Peer, opcode: int, data: bytes) -> bool:
        """Send one message and check its reply. Return whether the connection was closed, as the table says."""
        try:
            reply = await peer.next()
        except ConnectionEnded:
            reply = None
        if reply is None:
            assert says_disconnect(data), f"{data!r} was answered with just a close"
            assert peer.ended is not None
            assert peer.ended.code == 1000
            return True
        assert reply["type"] in REPLIES
        assert reply["protocol_version"] == "1.0"
        payload = reply["payload"]
        if opcode == BINARY:
            assert (reply["type"], payload["code"]) == ("error", "bad_request")
        if reply["type"] == "submit_events_result":
            for result in payload["results"]:
                assert result["status"] == "committed" or result["reason"] in REASONS
        if reply["type"] != "error":
            return False
        assert payload["message"]
        if payload["code"] in KEEPS:
            return False
        assert payload["code"] in CLOSES, payload
        assert await peer.close_code() == CLOSES[payload["code"]]
        return True


def says_disconnect(data: bytes) -> bool:
    try:
        return json.loads(data)["type"] == "disconnect"
    except (ValueError, TypeError, KeyError):
        return False


@pytest.fixture
def bench(sync_server):
    bench = Bench(sync_server.address)
    yield bench
    bench.close()


def test_mutated_messages_get_documented_codes_and_do_not_affect_others(bench):
    @settings(max_examples=examples(500))
    @given(message=messages, connected=st.booleans())
    def check(message: bytes, connected: bool) -> None:
        bench.runner.run(bench.tell([(TEXT, message)], connected))

    check()


def test_sequences_of_mutated_messages_are_answered_one_by_one(bench):
    @settings(max_examples=examples(100))
    @given(frames=st.lists(st.tuples(st.sampled_from([TEXT, TEXT, TEXT, BINARY]), messages), min_size=2, max_size=6))
    def check(frames: list[tuple[int, bytes]]) -> None:
        bench.runner.run(bench.tell(frames, True))

    check()


def test_random_bytes_on_the_socket_do_not_affect_others(bench):
    async def throw(data: bytes) -> None:
        async with await Peer.dial(bench.address) as peer:
            await peer.connect()
            await peer.send_bytes(data)
            peer.say_no_more()
            try:
                while True:
                    reply = await peer.next()
                    assert reply["type"] == "error"
                    assert reply["payload"]["code"] in KEEPS | CLOSES
            except ConnectionEnded:
                pass
        await bench.healthy.send("heartbeat", {})
        assert (await bench.healthy.next())["type"] == "heartbeat_ack"

    @settings(max_examples=examples(150))
    @given(data=st.binary(min_size=1, max_size=200))
    def check(data: bytes) -> None:
        bench.runner.run(throw(data))

    check()
