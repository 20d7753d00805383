"""The newest part of the log, in memory: what is durable in the journal, but not in the database yet.

Everything here is newer than everything in the database. A reader takes what it needs from here first, then reads the
database: a batch that moves from here to the database in between is found in both, and never in neither.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mainstem.log.commands import Key, State
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store.sqlite.journal import Batch

APPEND = Kind.APPEND  # looking up a member of an enum takes longer than the rest of a comparison


class Recent:
    """The batches that wait to be folded, and their states and records by what readers look for."""

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.bytes = 0
        """The size of the batches in the journal."""
        self.records: deque[Record] = deque()
        self._sizes: deque[int] = deque()
        self._states: dict[Key, tuple[int, State | None]] = {}
        self._keys: deque[Collection[Key]] = deque()
        self._topics: dict[TopicId, deque[Record]] = {}
        self._tags: dict[str, deque[Record]] = {}

    def add(self, batch: Batch, changes: Mapping[Key, State | None], size: int) -> None:
        number = batch.number
        self.batches.append(batch)
        self._sizes.append(size)
        self._keys.append(changes.keys())
        self.bytes += size
        for key, state in changes.items():
            self._states[key] = number, state
        self.records.extend(batch.content.records)
        for record in batch.content.records:
            if record.kind is APPEND:
                records = self._topics.get(record.topic)
                if records is None:
                    records = self._topics[record.topic] = deque()
                records.append(record)
            for tag in record.tags:
                self._tags.setdefault(tag, deque()).append(record)

    def forget(self, folded: int) -> None:
        """Forget the batches up to this number: the database has them."""
        while self.batches and self.batches[0].number <= folded:
            batch = self.batches.popleft()
            self.bytes -= self._sizes.popleft()
            for key in self._keys.popleft():
                if self._states[key][0] == batch.number:
                    del self._states[key]
            for record in batch.content.records:
                self.records.popleft()
                if record.kind is APPEND:
                    _forget_first(self._topics, record.topic)
                for tag in record.tags:
                    _forget_first(self._tags, tag)

    def __contains__(self, key: Key) -> bool:
        return key in self._states

    def state(self, key: Key) -> State | None:
        return self._states[key][1]

    @property
    def first_id(self) -> CommittedId | None:
        """The id of the oldest record here; all older ones are in the database."""
        return self.records[0].committed_id if self.records else None

    def appends(self, topic: TopicId, start: int = 0) -> list[Record]:
        """Return the appends of a topic that end after a position, oldest first."""
        records = self._topics.get(topic)
        if records is None:
            return []
        if start <= records[0].start:
            return list(records)
        found: list[Record] = []
        for record in reversed(records):  # readers are usually near the end
            if record.end <= start:
                break
            found.append(record)
        found.reverse()
        return found

    def log(self, after: CommittedId, until: CommittedId, topics: Collection[TopicId] | None) -> list[Record]:
        return [
            record
            for record in self.records
            if after < record.committed_id <= until and (topics is None or record.topic in topics)
        ]

    def tagged(self, tags: Sequence[str], after: CommittedId, until: CommittedId) -> list[Record]:
        """Return the records with any of these tags, each once, in committed order."""
        found = {
            record.committed_id: record
            for tag in tags
            for record in self._tags.get(tag, ())
            if after < record.committed_id <= until
        }
        return [found[committed_id] for committed_id in sorted(found)]

    def last_tagged(self, tag: str) -> CommittedId | None:
        records = self._tags.get(tag)
        return records[-1].committed_id if records else None


def _forget_first(index: dict[Any, deque[Record]], name: Any) -> None:
    records = index[name]
    records.popleft()
    if not records:
        del index[name]
