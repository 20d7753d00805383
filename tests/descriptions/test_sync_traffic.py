"""A run over the whole sync protocol of real servers: every message is described, in both directions."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from tests.support.issuers import write_secret
from tests.support.json_schemas import list_fields
from tests.support.sync_peers import Json, Peer, draft, envelope

UNSEEN_CODES = {
    "rate_limited": "the store must refuse writes; tests/sync has such stores",
    "server_error": "needs a fault of the server; tests/sync has some",
}
"""Codes of errors that this run does not provoke, and why."""


class RecordingPeer(Peer):
    """A connection that remembers its messages."""

    exchanged: list[tuple[str, Json]]

    async def send(self, type_: str, payload: Any, **fields: Any) -> None:
        self.exchanged.append(("client", envelope(type_, payload, **fields)))
        await super().send(type_, payload, **fields)

    async def next(self) -> Json:
        message = await super().next()
        self.exchanged.append(("server", message))
        return message


async def test_every_message_is_described_and_everything_described_is_seen(start_thread, connect_to, tmp_path):
    exchanged: list[tuple[str, Json]] = []
    server = start_thread(store="memory")
    client = connect_to(server)
    await exchange_messages(server, client, exchanged)
    secret = write_secret(tmp_path / "secret")
    guarded = start_thread(store="memory", jwt_secret_file=str(tmp_path / "secret"))
    await be_refused(guarded, secret.token(client_id="c", allowed_partitions=["mine"], exp=2**33), exchanged)

    document = client.get("/asyncapi.json").json()
    messages = document["components"]["messages"]
    validators = {type_: make_validator(document, message["payload"]) for type_, message in messages.items()}
    from_server = {
        reply["$ref"].rpartition("/")[2]
        for operation in document["operations"].values()
        for reply in (operation.get("reply", operation if operation["action"] == "send" else {})).get("messages", ())
    }
    seen: set[str] = set()
    for sender, message in exchanged:
        assert (message["type"] in from_server) == (sender == "server")
        faults = [f"{error.json_path}: {error.message}" for error in validators[message["type"]].iter_errors(message)]
        assert not faults, f"{message}: {faults}"
        seen |= {f"{message['type']} {path}" for path in list_used(message)}

    described = {
        f"{type_} {path}" for type_, message in messages.items() for path in list_fields(message["payload"], document)
    }
    assert sorted(described - seen) == []
    codes = set(document["components"]["schemas"]["ErrorPayload"]["properties"]["code"]["enum"])
    assert codes - {m["payload"]["code"] for _, m in exchanged if m["type"] == "error"} == set(UNSEEN_CODES)


async def open_peer(server, exchanged, path="/v1/sync") -> RecordingPeer:
    peer = await RecordingPeer.dial(server.address, path)
    peer.exchanged = exchanged
    return peer


async def exchange_messages(server, client: httpx2.Client, exchanged) -> None:
    """Send every message that a client may send, with every field, and receive every reply and a broadcast."""
    async with await open_peer(server, exchanged) as writer, await open_peer(server, exchanged) as reader:
        stamp = {"msg_id": "m1", "timestamp": "2026-01-01T00:00:00.000Z"}
        await writer.send("heartbeat", {}, **stamp)
        await writer.next_of("heartbeat_ack")
        await writer.send("connect", {"client_id": "writer", "token": ""}, **stamp)
        await writer.next_of("connected")
        await reader.connect("reader")
        page = {"partitions": ["room"], "since_committed_id": 0, "limit": 50, "subscription_partitions": ["room"]}
        await reader.send("sync", page, **stamp)
        await reader.next_of("sync_response")

        drafts = [draft(["room"], {"n": 1}, id="one", partition="room"), draft([""], {"n": 2}, id="two")]
        await writer.send("submit_events", {"events": drafts}, **stamp)
        results = (await writer.next_of("submit_events_result"))["results"]
        assert [result["status"] for result in results] == ["committed", "rejected"]
        await reader.next_of("event_broadcast")
        await writer.send("submit_event", draft("room", id="three", partition="room"), **stamp)
        await writer.next_of("event_committed")
        await writer.send("submit_event", draft("", id="four"), **stamp)
        await writer.next_of("event_rejected")

        # A partition with a snapshot, and one without: both have lost their history.
        await writer.send("submit_events", {"events": [draft(["other"], id="five")]}, msg_id=7)
        await writer.next_of("submit_events_result")
        assert client.put("/v1/snapshot/room", json={"committed_id": 2, "state": {"n": 2}}).status_code == 204
        assert client.post("/v1/prune", json={"floors": {"room": 1, "other": 3}}).status_code == 202
        await writer.send("sync", {"partitions": ["room", "other"], "since_committed_id": 0})
        behind = await writer.next_of("sync_response")
        assert behind["snapshots"][0]["partition"] == "room"
        assert behind["history_truncated"] == ["other"]
        assert behind["events"]

        await writer.send("sync", {"partitions": [""], "since_committed_id": 0}, **stamp)
        assert (await writer.next_error())["code"] == "validation_failed"
        await writer.send_text("nonsense")
        assert (await writer.next_error())["code"] == "bad_request"
        await writer.send("disconnect", {"reason": "done"}, **stamp)
        assert await writer.close_code() == 1000
    async with await open_peer(server, exchanged, "/v1/sync/core") as core:
        await core.connect("core")
        await core.send("sync", {"partitions": ["room"], "since_committed_id": 0})
        assert (await core.next_of("sync_response"))["effective_subscriptions"] == ["room"]
        await core.send_text(json.dumps({"type": "heartbeat", "payload": {}, "protocol_version": "9"}))
        assert (await core.next_error())["code"] == "protocol_version_unsupported"


async def be_refused(server, token: str, exchanged) -> None:
    async with await open_peer(server, exchanged) as peer:
        await peer.send("connect", {"client_id": "c", "token": "wrong"})
        assert (await peer.next_error())["code"] == "auth_failed"
    async with await open_peer(server, exchanged) as peer:
        await peer.connect("c", token)
        await peer.send("sync", {"partitions": ["theirs"], "since_committed_id": 0})
        assert (await peer.next_error())["code"] == "forbidden"


def make_validator(document: Json, schema: Json) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})


def list_used(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all fields of a message; items of a list share one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            inside = f"{path}.{name}" if path else name
            yield inside
            yield from list_used(inner, inside)
    elif isinstance(value, list):
        for inner in value:
            yield from list_used(inner, f"{path}[]")


async def test_the_handshake_is_refused_elsewhere(server):
    """The channels are all that there is."""
    with pytest.raises(ConnectionRefusedError):
        await Peer.dial(server.address, "/v1/sync/other")
