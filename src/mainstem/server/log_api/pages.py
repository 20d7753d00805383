"""Pages of the log from any store: find the records that pass the filters, name their streams, and encode them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import ArrowMissing
from mainstem.log.records import RECORD_BYTES, CommittedId, Kind, Record, TopicId
from mainstem.log.store import Store
from mainstem.server.log_api.formats import Body, encode_rows
from mainstem.server.log_api.paging import ResumePoints, take_page
from mainstem.server.log_api.rows import Names, Rows
from mainstem.server.log_api.selection import Selection
from mainstem.streams.commands.create import CreateDescription
from mainstem.streams.states import STREAMS
from mainstem.sync.commands import NO_TOPIC

_description = msgspec.json.Decoder(CreateDescription)


class Found(NamedTuple):
    """The records of a page, before they are encoded."""

    records: list[Record]
    names: Names
    next: int
    """Every id up to this one was examined."""


class EncodedPage(NamedTuple):
    body: Body
    next: int
    """Every id up to this one was examined."""
    rows: int
    position: int = 0
    """How many messages of the record after `next` this page holds, too."""


class LogPages:
    """Finds pages. It caches the names of topics, which never change."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.resume_points: ResumePoints = {}
        self._names: dict[TopicId, CreateDescription] = {}

    async def find(self, selection: Selection, head: int) -> Found:
        until = min(selection.until, head, selection.after + limits.LOG_SCAN_IDS_MAX)
        if selection.after >= until:
            return Found([], {}, selection.after)
        if selection.partitions:
            records, reached = await self._of_partitions(selection, until)
        else:
            records, reached = await self._of_log(selection, until)
        names = await self._name({record.topic for record in records})
        if selection.names_streams:
            records = [record for record in records if selection.takes_stream(names[record.topic].path)]
        if selection.since_us is not None or selection.before_us is not None:
            records = [record for record in records if selection.takes_time(record.committed_at_us)]
        return Found(records, names, reached)

    async def _of_log(self, selection: Selection, until: int) -> tuple[list[Record], int]:
        """Read pages of the store until the page is full, or the log ends."""
        kinds = selection.kinds
        topics = await self.find_topics(selection)
        found: list[Record] = []
        after, left = selection.after, selection.bytes_max
        while after < until and left > 0:
            page = await self.store.read_log(CommittedId(after), CommittedId(until), left, topics)
            if not page:
                return found, until
            after = page[-1].committed_id
            left -= sum([len(record.data) for record in page]) + RECORD_BYTES * len(page)
            found += page if kinds == EVERYTHING and _is_data(page) else [r for r in page if r.kind in kinds]
        return found, after

    async def _of_partitions(self, selection: Selection, until: int) -> tuple[list[Record], int]:
        limit = limits.LOG_TAGGED_MAX
        after, end = CommittedId(selection.after), CommittedId(until)
        records = await self.store.read_tagged(selection.partitions, after, end, limit, selection.bytes_max)
        if not records:
            return records, until
        last = records[-1].committed_id
        more = await self.store.read_tagged(selection.partitions, last, end, 1, 1)
        return records, last if more else until

    async def find_topics(self, selection: Selection) -> Sequence[TopicId] | None:
        """Return the topics that can have rows, so that the store can skip the others; None if there are too many."""
        if not selection.names_streams:
            return (NO_TOPIC,) if selection.kinds == (Kind.EVENT,) else None
        topics: list[TopicId] = []
        for prefix in _prefixes(selection):
            after = ""
            while page := await self.store.scan(STREAMS, prefix, after, limits.SCAN_PAGE):
                topics += [state.topic for path, state in page if selection.takes_stream(path)]
                if len(topics) > limits.LOG_TOPICS_MAX:
                    return None
                after = page[-1][0]
        return topics

    async def _name(self, topics: Iterable[TopicId]) -> dict[TopicId, CreateDescription]:
        if len(self._names) > limits.LOG_NAMES_MAX:
            self._names.clear()
        found: dict[TopicId, CreateDescription] = {}
        for topic in topics:
            if topic == NO_TOPIC:
                continue
            about = self._names.get(topic)
            if about is None:
                (record,) = await self.store.read_log(CommittedId(topic - 1), CommittedId(topic), 1)
                about = self._names[topic] = _description.decode(record.data)
            found[topic] = about
        return found


EVERYTHING = (Kind.APPEND, Kind.EVENT)


def _is_data(page: Sequence[Record]) -> bool:
    return all(record.messages for record in page)


def _prefixes(selection: Selection) -> list[str]:
    """Return the prefixes of the selected paths, none of which is a prefix of another."""
    prefix = selection.prefix
    literals = [pattern.partition("*")[0].removesuffix("/") for pattern in selection.streams] or [prefix]
    wanted = {max(literal, prefix, key=len) for literal in literals if literal.startswith(prefix[: len(literal)])}
    return [one for one in wanted if not any(one != other and one.startswith(other) for other in wanted)]


def encode(found: Found, selection: Selection, resume_points: ResumePoints, format_: str) -> EncodedPage:
    """Return the encoded page, which may end before the last record that was found."""
    taken = take_page(found.records, found.names, selection, resume_points)
    rows = Rows(taken.records, found.names, taken.first_position)
    try:
        body = encode_rows(rows, format_, selection.columns)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ArrowMissing("this server was installed without Arrow") from None
    return EncodedPage(body, found.next if taken.next is None else taken.next, len(rows), taken.position)


def is_up_to_date(selection: Selection, page: EncodedPage, head: int) -> bool:
    """Return whether nothing follows the page, now or in the selection as a whole."""
    return page.next >= min(selection.until, head)
