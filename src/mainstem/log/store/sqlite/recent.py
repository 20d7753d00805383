"""The newest part of the log, in memory: what is durable in the journal, but not in the database yet.

Everything here is newer than everything in the database. A reader takes what it needs from here first, then reads the
database: a batch that moves from here to the database in between is found in both, and never in neither.

A commit only adds a batch and notes its states, which costs little. What a batch holds for a topic or a tag is looked
up when a reader asks for it.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mainstem.log.commands import Key, Space, State
from mainstem.log.records import DATA_KINDS, CommittedId, Kind, Record, TopicId
from mainstem.log.store.sqlite.journal import Batch

APPEND = Kind.APPEND  # looking up a member of an enum takes longer than the rest of a comparison


class RecentBatch:
    """A batch, with what readers look for in it."""

    __slots__ = ("_appends", "_only_data", "_tagged", "batch", "changes", "size")

    def __init__(self, batch: Batch, changes: Mapping[Key, State | None], size: int) -> None:
        self.batch = batch
        self.changes = changes
        self.size = size
        self._only_data: bool | None = None
        self._appends: dict[TopicId, list[Record]] | None = None
        self._tagged: dict[str, list[Record]] | None = None

    @property
    def records(self) -> Sequence[Record]:
        return self.batch.content.records

    @property
    def only_data(self) -> bool:
        """Whether it creates, closes, trims and deletes nothing."""
        if self._only_data is None:
            self._only_data = all(record.kind in DATA_KINDS for record in self.records)
        return self._only_data

    @property
    def appends(self) -> dict[TopicId, list[Record]]:
        """The appends by topic, oldest first."""
        if self._appends is None:
            self._appends = {}
            for record in self.records:
                if record.kind is APPEND:
                    self._appends.setdefault(record.topic, []).append(record)
        return self._appends

    @property
    def tagged(self) -> dict[str, list[Record]]:
        """The records by tag, oldest first."""
        if self._tagged is None:
            self._tagged = {}
            for record in self.records:
                for tag in record.tags:
                    self._tagged.setdefault(tag, []).append(record)
        return self._tagged


class Recent:
    """The batches that wait to be folded."""

    def __init__(self) -> None:
        self.bytes = 0
        """The size of the batches in the journal."""
        self.records = 0
        """How many records they hold."""
        self._batches: deque[RecentBatch] = deque()
        self._newest: dict[Key, RecentBatch] = {}
        """The batch with the newest state of each key."""

    def add(self, batch: Batch, changes: Mapping[Key, State | None], size: int) -> None:
        recent = RecentBatch(batch, changes, size)
        self._batches.append(recent)
        self._newest.update(dict.fromkeys(changes, recent))
        self.bytes += size
        self.records += len(batch.content.records)

    def forget(self, folded: int) -> None:
        """Forget the batches up to this number: the database has them."""
        while self._batches and self._batches[0].batch.number <= folded:
            oldest = self._batches.popleft()
            self.bytes -= oldest.size
            self.records -= len(oldest.records)
            for key in oldest.changes:
                if self._newest[key] is oldest:
                    del self._newest[key]

    @property
    def batches(self) -> list[Batch]:
        return [recent.batch for recent in self._batches]

    @property
    def first_number(self) -> int | None:
        """The number of the oldest batch."""
        return self._batches[0].batch.number if self._batches else None

    @property
    def last_number(self) -> int:
        return self._batches[-1].batch.number if self._batches else 0

    def find_state(self, key: Key, default: Any) -> Any:
        """Return the newest state of a key; the default if no batch has changed it."""
        recent = self._newest.get(key)
        return default if recent is None else recent.changes[key]

    def states(self, space: Space[Any]) -> dict[str, State | None]:
        """Return the newest states of a space that some batch has changed, by name."""
        return {key.name: recent.changes[key] for key, recent in self._newest.items() if key.space is space}

    def last_older(self, until: CommittedId) -> CommittedId:
        """Return the last id up to `until` that is not here: all records up to it are in the database."""
        first = next((recent.records[0].committed_id for recent in self._batches if recent.records), None)
        return until if first is None else CommittedId(min(until, first - 1))

    def only_adds_after(self, until: CommittedId) -> bool:
        """Whether all batches only add data after this id, so that a reader up to it finds all in the database."""
        return self.last_older(until) == until and all(recent.only_data for recent in self._batches)

    def appends(self, topic: TopicId, start: int = 0) -> list[Record]:
        """Return the appends of a topic that end after a position, oldest first."""
        parts: list[list[Record]] = []
        for recent in reversed(self._batches):  # readers are usually near the end
            records = recent.appends.get(topic)
            if records is not None:
                if records[-1].end <= start:
                    break
                parts.append(records)
        return [record for records in reversed(parts) for record in records if record.end > start]

    def log(self, after: CommittedId, until: CommittedId, topics: Collection[TopicId] | None) -> list[Record]:
        return [
            record
            for recent in self._batches
            if recent.records and recent.records[0].committed_id <= until and recent.records[-1].committed_id > after
            for record in recent.records
            if after < record.committed_id <= until and (topics is None or record.topic in topics)
        ]

    def tagged(self, tags: Sequence[str], after: CommittedId, until: CommittedId) -> list[Record]:
        """Return the records with any of these tags, each once, in committed order."""
        found = {
            record.committed_id: record
            for recent in self._batches
            for tag in tags
            for record in recent.tagged.get(tag, ())
            if after < record.committed_id <= until
        }
        return [found[committed_id] for committed_id in sorted(found)]

    def tags(self) -> dict[str, CommittedId]:
        """Return the newest id of every tag."""
        return {tag: records[-1].committed_id for recent in self._batches for tag, records in recent.tagged.items()}

    def last_tagged(self, tag: str) -> CommittedId | None:
        for recent in reversed(self._batches):
            if tag in recent.tagged:
                return recent.tagged[tag][-1].committed_id
        return None
