"""The store in memory, for tests and temporary servers. It loses everything when its server stops."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mainstem.log.commands import Key, Space, State
from mainstem.log.records import RECORD_BYTES, Chunk, CommittedId, Kind, Outline, Record, TopicId
from mainstem.log.store.base import Store

APPEND = Kind.APPEND  # looking up a member of an enum takes longer than the rest of a comparison


class MemoryStore(Store):
    def __init__(self) -> None:
        self._head = CommittedId(0)
        self._states: dict[Key, State] = {}
        self._records: dict[CommittedId, Record] = {}
        self._topics: dict[TopicId, list[Record]] = {}
        self._tags: dict[str, list[CommittedId]] = {}
        self._tag_names: list[str] = []
        """The keys of `_tags`, sorted."""

    @property
    def head(self) -> CommittedId:
        return self._head

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def load(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        return {key: self._states.get(key) for key in keys}

    async def save(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        for key, state in changes.items():
            if state is None:
                self._states.pop(key, None)
            else:
                self._states[key] = state
        for record in records:
            for tag in record.tags:
                if tag not in self._tags:
                    self._tags[tag] = []
                    insort(self._tag_names, tag)
                self._tags[tag].append(record.committed_id)
            if record.tags or record.origin:
                record = msgspec.structs.replace(record, tags=(), origin=0)
            self._records[record.committed_id] = record
            if record.kind is APPEND:
                topic = self._topics.get(record.topic)
                if topic is None:
                    self._topics[record.topic] = [record]
                else:
                    topic.append(record)
        self._head = head

    async def get(self, key: Key) -> Any:
        return self._states.get(key)

    def peek(self, key: Key) -> Any:
        return self._states.get(key)

    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Any]:
        return {key: self._states.get(key) for key in keys}

    async def scan(self, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
        names = sorted(
            key.name for key in self._states if key.space is space and key.name.startswith(prefix) and key.name > after
        )
        return [(name, self._states[Key(space, name)]) for name in names[:limit]]

    async def due(self, space: Space[Any], until_us: int, limit: int) -> list[str]:
        times = [
            (at, key.name)
            for key, state in self._states.items()
            if key.space is space and (at := space.due(state)) is not None and at <= until_us
        ]
        return [name for _, name in sorted(times)[:limit]]

    async def read(self, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
        records = self._topics.get(topic, [])
        run: list[Record] = []
        for record in records[bisect_right(records, start, key=lambda record: record.end) :]:
            if record.start >= until or (run and record.end > start + bytes_max):
                break
            run.append(record)
        if not run:
            return None
        return Chunk(run[0].start, run[-1].end, b"".join(record.data for record in run))

    async def first_after(self, topic: TopicId, committed_id: CommittedId) -> int | None:
        return next((r.start for r in self._topics.get(topic, []) if r.committed_id > committed_id), None)

    async def outline(
        self, topic: TopicId, start: int, until: int, limit: int, *, newest_first: bool = False
    ) -> list[Outline]:
        records = self._topics.get(topic, [])
        first = bisect_right(records, start, key=lambda record: record.end)
        end = bisect_left(records, until, key=lambda record: record.start)
        found = records[max(first, end - limit) : end][::-1] if newest_first else records[first:end][:limit]
        return [Outline(r.start, r.end, r.messages, r.committed_at_us, r.committed_id) for r in found]

    async def read_log(
        self, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None = None
    ) -> list[Record]:
        page: list[Record] = []
        total = 0
        for number in range(after + 1, min(until, self._head) + 1):
            record = self._records.get(CommittedId(number))
            if record is None or (topics is not None and record.topic not in topics):
                continue
            total += len(record.data) + RECORD_BYTES
            if page and total > bytes_max:
                break
            page.append(record)
        return page

    async def read_tagged(
        self, tags: Sequence[str], after: CommittedId, until: CommittedId, limit: int, bytes_max: int
    ) -> list[Record]:
        found: set[CommittedId] = set()
        for tag in tags:
            ids = self._tags.get(tag, [])
            found.update(ids[bisect_right(ids, after) : bisect_right(ids, until)][:limit])
        page: list[Record] = []
        total = 0
        for committed_id in sorted(found)[:limit]:
            record = self._records[committed_id]
            total += len(record.data) + RECORD_BYTES
            if page and total > bytes_max:
                break
            page.append(record)
        return page

    async def last_tagged(self, tag: str) -> CommittedId:
        ids = self._tags.get(tag)
        return ids[-1] if ids else CommittedId(0)

    async def list_tags(self, prefix: str, after: str, limit: int) -> list[tuple[str, CommittedId]]:
        names = self._tag_names
        first = max(bisect_left(names, prefix), bisect_right(names, after))
        return [(tag, self._tags[tag][-1]) for tag in names[first : first + limit] if tag.startswith(prefix)]

    async def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        for tag, committed_id in tags:
            ids = self._tags.get(tag, [])
            if committed_id in ids:
                ids.remove(committed_id)
                if not ids:
                    del self._tags[tag]
                    del self._tag_names[bisect_left(self._tag_names, tag)]
        for committed_id in committed_ids:
            self._records.pop(committed_id, None)

    async def erase(self, topic: TopicId, until: int, limit: int) -> int:
        records = self._topics.get(topic, [])
        number = min(limit, bisect_right(records, until, key=lambda record: record.end))
        gone, kept = records[:number], records[number:]
        for record in gone:
            del self._records[record.committed_id]
        if kept:
            self._topics[topic] = kept
        else:
            self._topics.pop(topic, None)
        return len(gone)
