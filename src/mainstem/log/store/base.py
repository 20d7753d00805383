"""The Store contract. A store loads keys, saves changes and reads ranges; every rule is in the commands."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mainstem import limits
from mainstem.log.commands import Key, Space, State
from mainstem.log.records import DATA_KINDS, Chunk, CommittedId, Counts, Extent, Kind, Outline, Record, Size, TopicId
from mainstem.metrics.catalogue import Metrics

UNKNOWN: Final = object()
"""What `Store.peek` returns for a state that is not in memory."""


class HeadMoved(Exception):
    """Another node has committed since `load`, and nothing was stored. After the next `load` it cannot happen again."""


class CommitListener(Protocol):
    """Receives what other nodes commit to the same log."""

    def watched_topics(self) -> Sequence[TopicId]:
        """Return the topics whose data `publish` should receive; appends to other topics are left out."""

    def publish(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        """Called with what became durable: records come in committed order, each once."""

    def reset_observers(self) -> None:
        """Called when states have changed and it is not known which."""


class DiskUsage(NamedTuple):
    parts: Mapping[str, int]
    """Bytes on disk, by part of the store."""
    free: int | None = None
    """Bytes that are free on the same disk; None if that is unknown."""


class Store(ABC):
    """One committer calls `load` and `save` in turn; readers may call everything else at any time.

    Readers only see durable data. `save` is all or nothing: if it raises, nothing has changed.
    """

    metrics = Metrics()
    """Where the store counts. A server sets its own before it opens the store."""

    @property
    @abstractmethod
    def head(self) -> CommittedId:
        """The highest durable committed id."""

    @property
    def broken(self) -> str | None:
        """Why this store refuses writes until it is reopened; None if it does not."""
        return None

    @property
    def full(self) -> str | None:
        """Why this store has no space for writes at present; None if it has."""
        return None

    @property
    def nearly_full(self) -> bool:
        """Whether the remaining space is reserved for commands that free space (`commands.Freeing`)."""
        return False

    async def make_room(self) -> bool:
        """Release the reserved space of a full disk, and return whether there is space for a delete now."""
        return False

    async def disk_usage(self) -> DiskUsage:
        """Return how much space the store takes. Raises an OSError or a MainstemError if that cannot be found out."""
        return DiskUsage({})

    @property
    def shared(self) -> bool:
        """Whether other nodes write to the same log."""
        return False

    @property
    def is_leader(self) -> bool:
        """Whether this node runs the work that only one node should do: expiry, retention, pruning, webhooks."""
        return True

    @property
    def origin(self) -> str:
        """Names where the log is stored, if the store can tell that it was copied or restored without `mainstem`."""
        return ""

    def clock(self, local: Callable[[], int]) -> Callable[[], int]:
        """Return the clock of the log, in microseconds. All nodes of one log must use the same time."""
        return local

    def listen(self, listener: CommitListener) -> None:  # noqa: B027 - a store of one node has nothing to report
        """Report to the listener what other nodes commit from now on."""

    def watch_spaces(self, *spaces: Space[Any]) -> None:  # noqa: B027
        """Publish other nodes' changes in these spaces, even if this node has never used them."""

    async def catch_up(self) -> None:  # noqa: B027
        """Return once everything that was durable when this was called has been published."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def load(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        """Return the states of these keys, for the committer.

        The next `save` is based on them and on `head`; it raises `HeadMoved` if they are no longer current.
        """

    @property
    def holds_head(self) -> bool:
        """Whether `load` has locked the head, so that other nodes wait and a larger batch is worthwhile."""
        return False

    async def load_more(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        """Return more states, for commands that join the batch after `load`."""
        raise NotImplementedError("load_more is only called on stores that hold the head between load and save")

    async def confirm(self) -> None:  # noqa: B027
        """End a batch that changes nothing: raise `HeadMoved` if the states that `load` returned are outdated."""

    async def release(self) -> None:  # noqa: B027
        """End a batch that failed: release what `load` holds. Never raises."""

    @abstractmethod
    async def save(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        """Make all changes and records durable, then visible, each in one step."""

    @abstractmethod
    async def get(self, key: Key) -> Any:
        """Return one durable state, for a reader; None if there is none."""

    def peek(self, key: Key) -> Any:
        """Return what `get` would return, if that needs no wait, or else UNKNOWN."""
        return UNKNOWN

    @abstractmethod
    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Any]:
        """Return many durable states at once; None for each that does not exist."""

    @abstractmethod
    async def scan(self, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
        """Return names that start with `prefix` and sort after `after` (by code point), with their states."""

    @abstractmethod
    async def due(self, space: Space[Any], until_us: int, limit: int) -> list[str]:
        """Return the names of states that are due by `until_us`, the earliest first."""

    @abstractmethod
    async def read(self, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
        """Return a topic's data as whole records, joined, beginning with the record that contains `start`.

        The chunk ends within `bytes_max` of `start`, but holds at least one record if one begins before `until`. It may
        begin before `start` and end after `until`; the caller cuts it.
        """

    @abstractmethod
    async def first_after(self, topic: TopicId, committed_id: CommittedId) -> int | None:
        """Return the start of the topic's first data record after this committed id; None if there is none."""

    @abstractmethod
    async def outline(
        self, topic: TopicId, start: int, until: int, limit: int, *, newest_first: bool = False
    ) -> list[Outline]:
        """Return up to `limit` of the topic's data records between two positions, without their data."""

    @abstractmethod
    async def read_log(
        self, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None = None
    ) -> list[Record]:
        """Return records with `after` < id <= `until` in committed order, of the given topics or of all.

        The page holds up to `bytes_max` bytes, but at least one record if there is one.
        """

    async def measure(self, after: CommittedId, until: CommittedId, rows_max: int, bytes_max: int) -> Extent:
        """Measure the longest part of the log after `after` with at most `rows_max` messages and `bytes_max` bytes.

        It holds at least one data record if there is one. It ends with its last data record, or at `until` if no more
        data follows.
        """
        rows = size = 0
        last = after
        while page := await self.read_log(after, until, limits.MEASURE_PAGE_BYTES):
            for record in page:
                if record.kind in DATA_KINDS:
                    if rows and (rows + record.messages > rows_max or size + len(record.data) > bytes_max):
                        return Extent(last, rows, size)
                    rows += record.messages
                    size += len(record.data)
                    last = record.committed_id
            after = page[-1].committed_id
        return Extent(until, rows, size)

    async def sizes(self, ranges: Sequence[tuple[int, int]], topics: Collection[TopicId] | None = None) -> list[Size]:
        """Return how much data each range (`after`, `until`) of the log holds, of the given topics or of all."""
        found = []
        for after, until in ranges:
            rows = size = 0
            while page := await self.read_log(
                CommittedId(after), CommittedId(until), limits.MEASURE_PAGE_BYTES, topics
            ):
                data = [record for record in page if record.kind in DATA_KINDS]
                rows += sum(record.messages for record in data)
                size += sum(len(record.data) for record in data)
                after = page[-1].committed_id
            found.append(Size(rows, size))
        return found

    async def first_record(self, after: CommittedId) -> Outline | None:
        """Return the first record after a committed id, of any kind and without its data; None if there is none."""
        page = await self.read_log(after, self.head, 1)
        return (
            None
            if not page
            else Outline(page[0].start, page[0].end, page[0].messages, page[0].committed_at_us, page[0].committed_id)
        )

    async def count(self) -> Counts:
        """Count what the log holds. This reads the whole log, so it can take long."""
        appends = events = rows = size = 0
        after = CommittedId(0)
        while page := await self.read_log(after, self.head, limits.MEASURE_PAGE_BYTES):
            for record in page:
                if record.kind in DATA_KINDS:
                    appends += record.kind is Kind.APPEND
                    events += record.kind is Kind.EVENT
                    rows += record.messages
                    size += len(record.data)
            after = page[-1].committed_id
        return Counts(appends, events, rows, size)

    @abstractmethod
    async def read_tagged(
        self, tags: Sequence[str], after: CommittedId, until: CommittedId, limit: int, bytes_max: int
    ) -> list[Record]:
        """Return records with any of these tags and `after` < id <= `until`, each once, in committed order.

        The page holds up to `limit` records and `bytes_max` bytes, but at least one record if there is one.
        """

    @abstractmethod
    async def last_tagged(self, tag: str) -> CommittedId:
        """Return the id of the newest record with this tag; 0 if there is none."""

    @abstractmethod
    async def list_tags(self, prefix: str, after: str, limit: int) -> list[tuple[str, CommittedId]]:
        """Return tags that start with `prefix` and sort after `after` (by code point), with their newest ids.

        The cost grows with `limit`, not with the number of records.
        """

    @abstractmethod
    async def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        """Erase these records and tags. The caller names the tags, because the store cannot list a record's tags."""

    @abstractmethod
    async def erase(self, topic: TopicId, until: int, limit: int) -> int:
        """Erase up to `limit` of a topic's oldest data records that end by `until`, and return how many were erased."""
