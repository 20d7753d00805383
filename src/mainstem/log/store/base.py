"""The Store contract. A store is dumb: load keys, save changes, read ranges. Every rule lives in the commands."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from mainstem import limits
from mainstem.log.commands import Key, Space, State
from mainstem.log.records import DATA_KINDS, Chunk, CommittedId, Counts, Extent, Kind, Outline, Record, TopicId


class HeadMoved(Exception):
    """Another node has committed since `load`. Nothing was stored; after the next `load` this cannot happen again."""


class CommitListener(Protocol):
    """Receives what other nodes commit to the same log."""

    def watched_topics(self) -> Sequence[TopicId]:
        """The topics whose data is wanted at once; appends to others are left out."""

    def publish(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        """These became durable: records come in committed order, each once."""

    def reset_observers(self) -> None:
        """States have changed, and it is not known which."""


class Store(ABC):
    """One committer calls `load` and `save` in turn; readers may call everything else at any time.

    Whatever a reader is shown is durable. `save` is all or nothing: after it raised, nothing has changed.
    """

    @property
    @abstractmethod
    def head(self) -> CommittedId:
        """The highest durable committed id."""

    @property
    def broken(self) -> str | None:
        """Why this store refuses writes until it is reopened, if it does."""
        return None

    @property
    def full(self) -> str | None:
        """Why this store has no room for writes at present, if so."""
        return None

    @property
    def nearly_full(self) -> bool:
        """Whether the room that is left is kept for commands that free some (`commands.Freeing`)."""
        return False

    async def make_room(self) -> bool:
        """The disk is full, and something is to be freed: whether there is room for that now."""
        return False

    @property
    def shared(self) -> bool:
        """Whether other nodes write to the same log."""
        return False

    @property
    def is_leader(self) -> bool:
        """Whether this node does the work that only one node should do: expiry, retention, pruning, webhooks."""
        return True

    def clock(self, local: Callable[[], int]) -> Callable[[], int]:
        """The clock that the log goes by; nodes of one log must go by the same."""
        return local

    def listen(self, listener: CommitListener) -> None:  # noqa: B027 - a store of one node has nothing to tell
        """From now on tell the listener what other nodes commit."""

    def watch_spaces(self, *spaces: Space[Any]) -> None:  # noqa: B027
        """Publish other nodes' changes in these spaces, also if this node has never used them."""

    async def catch_up(self) -> None:  # noqa: B027
        """Return when all that was durable when this was called has been published."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def load(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        """The states under these keys, for the committer: `save` builds on them and `head`, or raises `HeadMoved`."""

    @property
    def holds_head(self) -> bool:
        """Whether `load` waited for other nodes and keeps them waiting now, so that a larger batch is worth while."""
        return False

    async def load_more(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        """The same as `load`, for commands that join its batch."""
        raise NotImplementedError("only stores that hold the log between load and save are asked for more")

    async def confirm(self) -> None:  # noqa: B027
        """A batch changes nothing: what `load` gave is still right, or this raises `HeadMoved`."""

    async def release(self) -> None:  # noqa: B027
        """A batch failed: let go of what `load` holds. Never raises."""

    @abstractmethod
    async def save(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        """Make all of it durable in one step, then visible in one step."""

    @abstractmethod
    async def get(self, key: Key) -> Any:
        """One durable state, for a reader; None if there is none."""

    @abstractmethod
    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Any]:
        """The same for many keys at once."""

    @abstractmethod
    async def scan(self, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
        """Names (by code point order) that start with `prefix` and come after `after`, with their states."""

    @abstractmethod
    async def due(self, space: Space[Any], until_us: int, limit: int) -> list[str]:
        """Names of states whose due time has come, earliest first."""

    @abstractmethod
    async def read(self, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
        """A run of a topic's data: whole records, joined, from the one that contains `start`.

        It ends within `bytes_max` of `start`, but always holds one record if there is one that begins below `until`.
        The caller trims: the run may begin before `start` and end beyond `until`.
        """

    @abstractmethod
    async def first_after(self, topic: TopicId, committed_id: CommittedId) -> int | None:
        """Where the topic's first data record behind this place in the log begins."""

    @abstractmethod
    async def outline(
        self, topic: TopicId, start: int, until: int, limit: int, *, newest_first: bool = False
    ) -> list[Outline]:
        """Up to `limit` of the topic's data records between two positions, without their data."""

    @abstractmethod
    async def read_log(
        self, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None = None
    ) -> list[Record]:
        """Records in committed order, with `after` < id <= `until`, paged in the same way; of some topics or of all."""

    async def measure(self, after: CommittedId, until: CommittedId, rows_max: int, bytes_max: int) -> Extent:
        """The longest run behind `after` with at most so many messages and bytes, but with one record that has any.

        It ends with its last data, or at `until` if no more data follows.
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

    async def count(self) -> Counts:
        """How much is kept. It looks at everything, so it takes its time."""
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
        """Records with any of these tags, once each, in committed order, with `after` < id <= `until`.

        Up to `limit`, and within `bytes_max` as the pages of the log are.
        """

    @abstractmethod
    async def last_tagged(self, tag: str) -> CommittedId:
        """The newest record with this tag; 0 if there is none."""

    @abstractmethod
    async def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        """Remove these records, and these tags, for good. The caller knows the tags; the store has no list of them."""

    @abstractmethod
    async def erase(self, topic: TopicId, until: int, limit: int) -> int:
        """Remove up to `limit` of a topic's data records that end by `until`, for good, and say how many went."""
