"""The check finds what is wrong with a store: each fault is planted into a copy of a whole one."""

import random

import apsw
import httpx2
import msgspec
import pytest

from mainstem import limits
from mainstem.cli.invariants import check_everything
from mainstem.log.records import TopicId
from mainstem.log.store.sqlite.check import snapshot
from mainstem.streams.states import GARBAGE, PRODUCERS, STREAMS, ProducerState
from mainstem.sync.states import EVENT_IDS, PARTITIONS
from tests.cli.stores import TEXT, producer, submit

replace = msgspec.structs.replace


def faults(store):
    with snapshot(store) as db:
        return check_everything(db).faults


class Surgeon:
    """Changes a store behind the server's back."""

    def __init__(self, path):
        self.db = apsw.Connection(str(path))

    def sql(self, statement, *values):
        self.db.execute(statement, values)
        assert self.db.changes(), "nothing was harmed"

    def state(self, space, name):
        found = self.db.execute("SELECT value FROM states WHERE space = ? AND name = ?", (space.number, name)).get
        return space.decode(found)

    def put(self, space, name, state):
        self.db.execute(
            "INSERT OR REPLACE INTO states (space, name, due_us, value) VALUES (?, ?, ?, ?)",
            (space.number, name, space.due(state), space.encode(state)),
        )

    def change(self, space, name, **fields):
        self.put(space, name, replace(self.state(space, name), **fields))


@pytest.fixture
def surgeon(store):
    surgeon = Surgeon(store)
    yield surgeon
    surgeon.db.close()


def test_a_store_with_some_of_everything_is_whole(store):
    assert faults(store) == ()
    with snapshot(store) as db:
        found = check_everything(db)
    assert found.figures.head >= found.figures.records > 20


def drop_a_record_in_the_middle(s):
    s.sql('DELETE FROM records WHERE kind = 2 AND topic = ? AND "start" = 7', s.state(STREAMS, "plain").topic)


def drop_the_first_record(s):
    s.sql('DELETE FROM records WHERE kind = 2 AND topic = ? AND "start" = 0', s.state(STREAMS, "plain").topic)


def drop_the_last_record(s):
    topic = s.state(STREAMS, "plain").topic
    s.sql(
        "DELETE FROM records WHERE committed_id = (SELECT max(committed_id) FROM records WHERE kind = 2 AND topic = ?)",
        topic,
    )


def drop_inherited_data(s):
    s.sql("DELETE FROM records WHERE kind = 2 AND topic = ?", s.state(STREAMS, "source").topic)


def forget_how_far_a_stream_goes(s):
    s.change(STREAMS, "plain", tail=14)


def swap_the_order_of_a_topic(s):
    first, second = [
        row[0]
        for row in s.db.execute(
            "SELECT committed_id FROM records WHERE kind = 2 AND topic = ? LIMIT 2", (s.state(STREAMS, "plain").topic,)
        )
    ]
    s.sql("UPDATE records SET committed_id = -1 WHERE committed_id = ?", first)
    s.sql("UPDATE records SET committed_id = ? WHERE committed_id = ?", first, second)
    s.sql("UPDATE records SET committed_id = ? WHERE committed_id = -1", second)


def cut_the_data_of_a_record(s):
    s.sql("UPDATE records SET data = substr(data, 2) WHERE kind = 2 AND topic = ?", s.state(STREAMS, "json").topic)


def use_an_unknown_kind(s):
    s.sql("UPDATE records SET kind = 99 WHERE kind = 3")


def drop_a_create_record(s):
    s.sql("DELETE FROM records WHERE committed_id = ?", s.state(STREAMS, "plain").topic)


def give_a_topic_to_another_path(s):
    s.put(STREAMS, "thief", s.state(STREAMS, "plain"))


def lose_the_newest_records(s):
    s.sql("DELETE FROM records WHERE committed_id >= ?", s.state(EVENT_IDS, "e3").committed_id)
    s.sql("DELETE FROM tags WHERE committed_id >= ?", s.state(EVENT_IDS, "e3").committed_id)
    s.sql("UPDATE head SET committed_id = 1")


def lose_the_head(s):
    s.sql("DELETE FROM head")


def use_a_negative_head(s):
    s.sql("UPDATE head SET committed_id = -5")


def point_a_tag_nowhere(s):
    s.sql("INSERT INTO tags VALUES ('a', 1)")


def drop_a_tag(s):
    s.sql("DELETE FROM tags WHERE tag = 'b' AND committed_id = ?", s.state(EVENT_IDS, "e3").committed_id)


def invent_a_tag(s):
    s.sql("INSERT INTO tags VALUES ('elsewhere', ?)", s.state(EVENT_IDS, "e3").committed_id)


def drop_a_place(s):
    s.sql("DELETE FROM old_places WHERE topic = ?", s.state(STREAMS, "plain").topic)


def invent_a_place(s):
    s.sql("INSERT INTO old_places VALUES (?, 99, 1)", s.state(STREAMS, "plain").topic)


def settle_a_place_and_keep_it(s):
    s.sql("INSERT INTO new_places SELECT * FROM old_places WHERE topic = ?", s.state(STREAMS, "plain").topic)


def garble_a_state(s):
    s.sql("UPDATE states SET value = x'c1' WHERE space = 1 AND name = 'kept'")


def use_an_unknown_space(s):
    s.sql("INSERT INTO states VALUES (77, 'x', NULL, x'90')")


def forget_when_a_state_is_due(s):
    s.sql("UPDATE states SET due_us = 5 WHERE space = 1 AND name = 'kept'")


def miscount_the_forks(s):
    s.change(STREAMS, "source", forks=7)


def lose_the_source_of_a_fork(s):
    s.sql("DELETE FROM states WHERE space = 1 AND name = 'branch'")


def orphan_some_data(s):
    s.change(STREAMS, "plain", deleted=True)


def erase_the_mark_of_garbage(s):
    topic = s.state(STREAMS, "source").topic
    s.change(STREAMS, "source", deleted=True, forks=0)
    assert not list(
        s.db.execute("SELECT 1 FROM states WHERE space = ? AND name = ?", (GARBAGE.number, f"{topic:016d}"))
    )


def invent_a_producer(s):
    s.put(PRODUCERS, "plain\0stranger", ProducerState(TopicId(12345), 0, 0))


def plan_a_check_for_nothing(s):
    s.db.execute("UPDATE states SET name = 'nowhere' WHERE space = 4")


def drop_the_plan_of_a_retention(s):
    s.sql("DELETE FROM states WHERE space = 4")


def forget_an_event_id(s):
    s.sql("DELETE FROM states WHERE space = 8 AND name = 'e4'")


def give_an_event_id_to_another_event(s):
    s.change(EVENT_IDS, "e4", committed_id=s.state(EVENT_IDS, "e5").committed_id)


def change_an_event(s):
    s.sql("UPDATE records SET data = CAST(replace(data, '\"n\": 4', '\"n\": 9') AS BLOB) WHERE kind = 6")


def garble_an_event(s):
    s.sql("UPDATE records SET data = x'00' WHERE committed_id = ?", s.state(EVENT_IDS, "e4").committed_id)


def lose_an_event(s):
    number = s.state(EVENT_IDS, "e4").committed_id
    s.sql("DELETE FROM records WHERE committed_id = ?", number)
    s.sql("DELETE FROM tags WHERE committed_id = ?", number)


def put_a_floor_beyond_the_log(s):
    s.change(PARTITIONS, "a", floor=10**9)


def lose_a_snapshot(s):
    s.sql("DELETE FROM states WHERE space = 10 AND name = 'a'")


PLANTED = [
    (drop_a_record_in_the_middle, "topic", "begins at 14, not at 7"),
    (drop_the_first_record, "stream", "from 0 to 7 is missing"),
    (drop_the_last_record, "stream", "from 28 to 35 is missing"),
    (drop_inherited_data, "stream", "from 0 to 10 is missing"),
    (forget_how_far_a_stream_goes, "stream", "ends at 14, but has data up to 35"),
    (swap_the_order_of_a_topic, "topic", "was committed before"),
    (cut_the_data_of_a_record, "record", "does not fit together"),
    (use_an_unknown_kind, "record", "of kind 99"),
    (drop_a_create_record, "topic", "no record that creates it"),
    (give_a_topic_to_another_path, "stream", "'thief': its topic"),
    (lose_the_newest_records, "head", "but the log ends at"),
    (lose_the_head, "head", "one row"),
    (use_a_negative_head, "head", "-5"),
    (point_a_tag_nowhere, "tag", "'a' names 1"),
    (drop_a_tag, "tag", "has no tag there"),
    (invent_a_tag, "tag", "tags, but the events are in"),
    (drop_a_place, "place", "has 0 places"),
    (invent_a_place, "place", "should have record 1, and it is not there"),
    (settle_a_place_and_keep_it, "place", "has 2 places"),
    (garble_a_state, "state", "'kept' in space 1 cannot be decoded"),
    (use_an_unknown_space, "state", "space 77"),
    (forget_when_a_state_is_due, "state", "is due at"),
    (miscount_the_forks, "fork", "counts 7 forks, but 1"),
    (lose_the_source_of_a_fork, "fork", "'branch'"),
    (orphan_some_data, "stream", "belongs to no stream"),
    (erase_the_mark_of_garbage, "stream", "belongs to no stream"),
    (invent_a_producer, "producer", "'stranger' belongs to no stream"),
    (plan_a_check_for_nothing, "retention", "'nowhere', and there is no such stream"),
    (drop_the_plan_of_a_retention, "retention", "no check is planned"),
    (forget_an_event_id, "event", "'e4', which the index of ids does not know"),
    (give_an_event_id_to_another_event, "event", "and is also"),
    (change_an_event, "event", "its hash differs"),
    (garble_an_event, "event", "cannot be decoded"),
    (lose_an_event, "event", "though nothing pruned it"),
    (put_a_floor_beyond_the_log, "head", "beyond the end of the log"),
    (lose_a_snapshot, "partition", "its snapshot does not end at"),
]


@pytest.mark.parametrize(("plant", "rule", "said"), PLANTED, ids=[plant.__name__ for plant, _, _ in PLANTED])
def test_a_planted_fault_is_found(store, surgeon, plant, rule, said):
    plant(surgeon)
    found = faults(store)
    assert any(fault.rule == rule and said in fault.detail for fault in found), found


def test_a_torn_page_is_found(store):
    size = store.stat().st_size
    with store.open("r+b") as file:
        for page in range(4096, size, 3 * 4096):
            file.seek(page + 100)
            file.write(bytes(range(256)) * 12)
    assert any(fault.rule == "file" for fault in faults(store))


def test_a_list_of_faults_ends(store, surgeon):
    surgeon.db.execute("BEGIN")
    for number in range(limits.CHECK_FAULTS_MAX + 5):
        surgeon.sql("INSERT INTO tags VALUES (?, 1)", f"tag {number}")
    surgeon.db.execute("COMMIT")
    with snapshot(store) as db:
        found = check_everything(db)
    assert (len(found.faults), found.more) == (limits.CHECK_FAULTS_MAX, True)


# Nothing that the server itself does is a fault


def change_something(client, chance, number):
    path = f"/v1/stream/s{chance.randrange(6)}"
    other = f"/v1/stream/s{chance.randrange(6)}"
    match chance.randrange(8):
        case 0:
            client.put(path, headers=TEXT | ({"stream-retention": "max-messages=2"} if number % 3 else {}))
        case 1:
            client.put(path, headers={"stream-forked-from": other}, content=b"")
        case 2:
            client.delete(path)
        case 3 if number % 4 == 0:
            client.post(path, headers={"stream-closed": "true"})
        case 4:
            client.post(path, headers=TEXT | producer(0) | {"producer-id": f"p{number}"}, content=b"by a producer")
        case _:
            client.post(path, headers=TEXT, content=b"x" * chance.randrange(1, 50))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_store_is_whole_after_any_changes_while_its_server_runs_and_after_it_was_killed(start_server, seed):
    server = start_server()
    chance = random.Random(seed)
    store = server.data / "mainstem.db"
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        for number in range(150):
            change_something(client, chance, number)
            if number % 50 == 49:
                submit(server, [(f"e{number}-{n}", [chance.choice("abc"), "d"], {"n": n}) for n in range(5)])
                head = client.get("/readyz").json()["head"]
                floors = {name: chance.randrange(head) for name in "abcd"}
                client.post("/v1/prune", json={"floors": floors}).raise_for_status()
                assert faults(store) == ()
    server.kill()
    assert faults(store) == ()
