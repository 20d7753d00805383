"""Violations of what a store promises, each planted into a filled store: the same for every store on disk."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from mainstem.log.commands import Space
from mainstem.log.identity import FIRST_EPOCH, IDENTITY, Epoch, LogIdentity
from mainstem.log.records import TopicId
from mainstem.streams.states import GARBAGE, PRODUCERS, RETENTION_CHECKS, STREAMS, ProducerState
from mainstem.sync.states import EVENT_IDS, PARTITIONS, SNAPSHOTS


class StoreEditor(ABC):
    """Changes a store without its server. Statements are common to all stores, with a ? for each value."""

    @abstractmethod
    def execute(self, statement: str, *values: Any) -> int:
        """Run a statement, and return how many rows it changed."""

    @abstractmethod
    def fetch(self, statement: str, *values: Any) -> list[Any]: ...

    @abstractmethod
    def text(self, text: str) -> str | bytes:
        """Return a name, tag or source in its stored form."""

    def sql(self, statement: str, *values: Any) -> None:
        assert self.execute(statement, *values), "nothing was harmed"

    def state(self, space: Space[Any], name: str) -> Any:
        ((value,),) = self.fetch("SELECT value FROM states WHERE space = ? AND name = ?", space.number, self.text(name))
        return space.decode(value)

    def put(self, space: Space[Any], name: str, state: Any) -> None:
        self.sql(
            "INSERT INTO states (space, name, due_us, value) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (space, name) DO UPDATE SET due_us = excluded.due_us, value = excluded.value",
            space.number,
            self.text(name),
            space.due(state),
            space.encode(state),
        )

    def change(self, space: Space[Any], name: str, **fields: Any) -> None:
        self.put(space, name, msgspec.structs.replace(self.state(space, name), **fields))

    def drop(self, space: Space[Any], name: str) -> None:
        self.sql("DELETE FROM states WHERE space = ? AND name = ?", space.number, self.text(name))


def drop_a_record_in_the_middle(s: StoreEditor) -> None:
    s.sql('DELETE FROM records WHERE kind = 2 AND topic = ? AND "start" = 7', s.state(STREAMS, "plain").topic)


def drop_the_first_record(s: StoreEditor) -> None:
    s.sql('DELETE FROM records WHERE kind = 2 AND topic = ? AND "start" = 0', s.state(STREAMS, "plain").topic)


def drop_the_last_record(s: StoreEditor) -> None:
    topic = s.state(STREAMS, "plain").topic
    s.sql(
        "DELETE FROM records WHERE committed_id = (SELECT max(committed_id) FROM records WHERE kind = 2 AND topic = ?)",
        topic,
    )


def drop_inherited_data(s: StoreEditor) -> None:
    s.sql("DELETE FROM records WHERE kind = 2 AND topic = ?", s.state(STREAMS, "source").topic)


def forget_how_far_a_stream_goes(s: StoreEditor) -> None:
    s.change(STREAMS, "plain", tail=14)


def swap_the_order_of_a_topic(s: StoreEditor) -> None:
    first, second = [
        row[0]
        for row in s.fetch(
            "SELECT committed_id FROM records WHERE kind = 2 AND topic = ? ORDER BY committed_id LIMIT 2",
            s.state(STREAMS, "plain").topic,
        )
    ]
    s.sql("UPDATE records SET committed_id = -1 WHERE committed_id = ?", first)
    s.sql("UPDATE records SET committed_id = ? WHERE committed_id = ?", first, second)
    s.sql("UPDATE records SET committed_id = ? WHERE committed_id = -1", second)


def cut_the_data_of_a_record(s: StoreEditor) -> None:
    s.sql("UPDATE records SET data = substr(data, 2) WHERE kind = 2 AND topic = ?", s.state(STREAMS, "json").topic)


def use_an_unknown_kind(s: StoreEditor) -> None:
    s.sql("UPDATE records SET kind = 99 WHERE kind = 3")


def drop_a_create_record(s: StoreEditor) -> None:
    s.sql("DELETE FROM records WHERE committed_id = ?", s.state(STREAMS, "plain").topic)


def give_a_topic_to_another_path(s: StoreEditor) -> None:
    s.put(STREAMS, "thief", s.state(STREAMS, "plain"))


def lose_the_newest_records(s: StoreEditor) -> None:
    s.sql("DELETE FROM records WHERE committed_id >= ?", s.state(EVENT_IDS, "e3").committed_id)
    s.sql("DELETE FROM tags WHERE committed_id >= ?", s.state(EVENT_IDS, "e3").committed_id)
    s.sql("UPDATE head SET committed_id = 1")


def lose_the_head(s: StoreEditor) -> None:
    s.sql("DELETE FROM head")


def use_a_negative_head(s: StoreEditor) -> None:
    s.sql("UPDATE head SET committed_id = -5")


def point_a_tag_nowhere(s: StoreEditor) -> None:
    s.sql("INSERT INTO tags VALUES (?, 1)", s.text("a"))


def drop_a_tag(s: StoreEditor) -> None:
    s.sql("DELETE FROM tags WHERE tag = ? AND committed_id = ?", s.text("b"), s.state(EVENT_IDS, "e3").committed_id)


def invent_a_tag(s: StoreEditor) -> None:
    s.sql("INSERT INTO tags VALUES (?, ?)", s.text("elsewhere"), s.state(EVENT_IDS, "e3").committed_id)


def garble_a_state(s: StoreEditor) -> None:
    s.sql("UPDATE states SET value = ? WHERE space = 1 AND name = ?", b"\xc1", s.text("kept"))


def use_an_unknown_space(s: StoreEditor) -> None:
    s.sql("INSERT INTO states VALUES (77, ?, NULL, ?)", s.text("x"), b"\x90")


def forget_when_a_state_is_due(s: StoreEditor) -> None:
    s.sql("UPDATE states SET due_us = 5 WHERE space = 1 AND name = ?", s.text("kept"))


def miscount_the_forks(s: StoreEditor) -> None:
    s.change(STREAMS, "source", forks=7)


def lose_the_source_of_a_fork(s: StoreEditor) -> None:
    s.drop(STREAMS, "branch")


def orphan_some_data(s: StoreEditor) -> None:
    s.change(STREAMS, "plain", deleted=True)


def erase_the_mark_of_garbage(s: StoreEditor) -> None:
    topic = s.state(STREAMS, "source").topic
    s.change(STREAMS, "source", deleted=True, forks=0)
    name = s.text(f"{topic:016d}")
    assert not s.fetch("SELECT 1 FROM states WHERE space = ? AND name = ?", GARBAGE.number, name)


def invent_a_producer(s: StoreEditor) -> None:
    s.put(PRODUCERS, "plain\0stranger", ProducerState(TopicId(12345), 0, 0))


def plan_a_check_for_nothing(s: StoreEditor) -> None:
    s.sql("UPDATE states SET name = ? WHERE space = ?", s.text("nowhere"), RETENTION_CHECKS.number)


def drop_the_plan_of_a_retention(s: StoreEditor) -> None:
    s.sql("DELETE FROM states WHERE space = ?", RETENTION_CHECKS.number)


def forget_an_event_id(s: StoreEditor) -> None:
    s.drop(EVENT_IDS, "e4")


def give_an_event_id_to_another_event(s: StoreEditor) -> None:
    s.change(EVENT_IDS, "e4", committed_id=s.state(EVENT_IDS, "e5").committed_id)


def change_an_event(s: StoreEditor) -> None:
    number = s.state(EVENT_IDS, "e4").committed_id
    ((data,),) = s.fetch("SELECT data FROM records WHERE committed_id = ?", number)
    s.sql("UPDATE records SET data = ? WHERE committed_id = ?", data.replace(b'"n": 4', b'"n": 9'), number)


def garble_an_event(s: StoreEditor) -> None:
    s.sql("UPDATE records SET data = ? WHERE committed_id = ?", b"\0", s.state(EVENT_IDS, "e4").committed_id)


def lose_an_event(s: StoreEditor) -> None:
    number = s.state(EVENT_IDS, "e4").committed_id
    s.sql("DELETE FROM records WHERE committed_id = ?", number)
    s.sql("DELETE FROM tags WHERE committed_id = ?", number)


def put_a_floor_beyond_the_log(s: StoreEditor) -> None:
    s.change(PARTITIONS, "a", floor=10**9)


def lose_a_snapshot(s: StoreEditor) -> None:
    s.drop(SNAPSHOTS, "a")


def begin_an_epoch_beyond_the_end(s: StoreEditor) -> None:
    s.put(IDENTITY, "", LogIdentity("abc", (FIRST_EPOCH, Epoch(99_999, "1-aa"))))


def begin_two_epochs_at_once(s: StoreEditor) -> None:
    s.put(IDENTITY, "", LogIdentity("abc", (FIRST_EPOCH, FIRST_EPOCH)))


def lose_the_id_of_the_log(s: StoreEditor) -> None:
    s.change(IDENTITY, "", id="")


VIOLATIONS: list[tuple[Callable[[StoreEditor], None], str, str]] = [
    (drop_a_record_in_the_middle, "topic", "begins at 14, not at 7"),
    (drop_the_first_record, "stream", "from 0 to 7 is missing"),
    (drop_the_last_record, "stream", "from 28 to 35 is missing"),
    (drop_inherited_data, "stream", "from 0 to 10 is missing"),
    (forget_how_far_a_stream_goes, "stream", "ends at 14, but has data up to 35"),
    (swap_the_order_of_a_topic, "topic", "was committed before"),
    (cut_the_data_of_a_record, "record", "contradicts itself"),
    (use_an_unknown_kind, "record", "of kind 99"),
    (drop_a_create_record, "topic", "no record creates it"),
    (give_a_topic_to_another_path, "stream", "'thief': its topic"),
    (lose_the_newest_records, "head", "but the log ends at"),
    (lose_the_head, "head", "one row"),
    (begin_an_epoch_beyond_the_end, "identity", "begins after 99999, but the log ends at"),
    (begin_two_epochs_at_once, "identity", "do not follow each other"),
    (lose_the_id_of_the_log, "identity", "is incomplete"),
    (use_a_negative_head, "head", "-5"),
    (point_a_tag_nowhere, "tag", "'a' refers to event 1"),
    (drop_a_tag, "tag", "has no tag for it"),
    (invent_a_tag, "tag", "tags, but its events need only"),
    (garble_a_state, "state", "'kept' in space 1 cannot be decoded"),
    (use_an_unknown_space, "state", "space 77"),
    (forget_when_a_state_is_due, "state", "is due at"),
    (miscount_the_forks, "fork", "counts 7 forks, but 1"),
    (lose_the_source_of_a_fork, "fork", "'branch'"),
    (orphan_some_data, "stream", "belongs to no stream"),
    (erase_the_mark_of_garbage, "stream", "belongs to no stream"),
    (invent_a_producer, "producer", "'stranger' belongs to no stream"),
    (plan_a_check_for_nothing, "retention", "'nowhere', which does not exist"),
    (drop_the_plan_of_a_retention, "retention", "no check is planned"),
    (forget_an_event_id, "event", "'e4', which is missing in the index of ids"),
    (give_an_event_id_to_another_event, "event", "in the index, but is the id of event"),
    (change_an_event, "event", "its hash is another one"),
    (garble_an_event, "event", "cannot be decoded"),
    (lose_an_event, "event", "although nothing pruned it"),
    (put_a_floor_beyond_the_log, "head", "beyond the end of the log"),
    (lose_a_snapshot, "partition", "its snapshot does not end at"),
]
"""How to plant each violation, the rule that it breaks, and a part of the check's report."""
