"""Validation modes and implicit subscriptions as an operator sets them."""

import json
from uuid import NAMESPACE_URL, uuid4, uuid5

from mainstem.server import Settings, create_app
from mainstem.sync.validation.validators import FieldError, model_validator
from mainstem.testing.server_thread import ServerThread
from tests.support.sync_peers import Peers, draft, ids_of


async def test_mode_none_accepts_any_object(start_thread, room):
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        assert len(await (await peers.join()).commit(draft(room, {}), draft(room, {"any": ["thing"]}))) == 2


async def test_mode_model_checks_events_by_the_schema_that_they_name(start_thread, room, tmp_path):
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    schema = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    (schemas / "note.json").write_text(json.dumps(schema))
    server = start_thread(store="memory", sync_validation="model", sync_schemas=str(schemas))
    async with Peers(server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        results = await peer.submit(
            draft(room, {"type": "note", "title": "x"}),
            draft(room, {"type": "note"}),
            draft(room, {"type": "unknown"}),
            draft(room, {}),
        )
        assert [result["status"] for result in results] == ["committed", "rejected", "rejected", "rejected"]
        assert {result["reason"] for result in results[1:]} == {"validation_failed"}
        assert results[1]["errors"][0]["field"] == "event.title"
        assert ids_of(await watcher.next_broadcasts(1)) == ids_of(results[:1])
        assert await watcher.flush() == []


async def test_mode_tree_refuses_an_event_that_is_not_an_action(start_thread, room):
    server = start_thread(store="memory", sync_validation="tree")
    async with Peers(server.address) as peers:
        [result] = await (await peers.join()).submit(draft(room, {"type": "no such action"}))
        assert (result["status"], result["reason"]) == ("rejected", "validation_failed")


async def test_implicit_subscriptions_can_be_enabled_for_all_clients(start_thread, room, other_room):
    server = start_thread(store="memory", implicit_subscriptions=True)
    async with Peers(server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        assert (await reader.sync([room]))["effective_subscriptions"] == [room]
        ids = await writer.commit(draft(room), draft(other_room))
        assert ids_of(await reader.next_broadcasts(1)) == ids[:1]
        page = await reader.sync([room], subscription_partitions=[])
        assert page["effective_subscriptions"] == []


def check_task(event, earlier, /):
    return [] if event.get("title") else [FieldError("event.title", "a task has a title")]


async def test_registered_validators_are_chosen_by_the_name_of_the_schema(room):
    server = ServerThread(Settings(port=0, store="memory"))
    server.app.validate = create_app(store="memory", validate=model_validator({"task": check_task})).validate
    with server:
        async with Peers(server.address) as peers:
            results = await (await peers.join()).submit(
                draft(room, {"schema": "task", "title": "x"}), draft(room, {"schema": "task"}), draft(room, {})
            )
    assert [result["status"] for result in results] == ["committed", "rejected", "rejected"]
    assert results[1]["errors"] == [{"field": "event.title", "message": "a task has a title"}]


GUESSABLE = ["1", "order-7", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "1ec9414c-232a-6b00-b3c8-9e6bdeced846", "x" * 36]
UNGUESSABLE = [str(uuid4()), uuid4().hex, str(uuid5(NAMESPACE_URL, "a")), "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"]


async def test_an_operator_can_require_ids_that_cannot_be_guessed(start_thread, room):
    server = start_thread(store="memory", sync_ids="uuid")
    async with Peers(server.address) as peers:
        peer = await peers.dial()
        assert (await peer.connect())["event_ids"] == "uuid"
        refused = await peer.submit(*(draft(room, id=id_) for id_ in GUESSABLE))
        assert {(result["status"], result["reason"]) for result in refused} == {("rejected", "validation_failed")}
        assert {result["errors"][0]["field"] for result in refused} == {"id"}
        assert "UUID" in refused[0]["errors"][0]["message"]
        assert len(await peer.commit(*(draft(room, id=id_) for id_ in UNGUESSABLE))) == len(UNGUESSABLE)


async def test_any_id_is_accepted_unless_the_operator_requires_uuids(start_thread, room):
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        peer = await peers.dial()
        assert (await peer.connect())["event_ids"] == "any"
        assert len(await peer.commit(*(draft(room, id=id_) for id_ in GUESSABLE))) == len(GUESSABLE)
