"""Histories of a perfect server, into which tests plant violations."""

from typing import Any

from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import (
    AnyCall,
    Append,
    Broadcast,
    Create,
    Delete,
    Event,
    Head,
    LogPage,
    PartitionPage,
    Prune,
    Read,
    Row,
    Submit,
    SyncPage,
    size_of,
)
from mainstem.testing.history.checker import check_history
from mainstem.testing.history.violations import Violation


class Story:
    """A server in a few lists. Each method is a call, which starts after the one before it has ended.

    Keywords overwrite fields of the call that is recorded; the server itself makes no mistakes.
    """

    def __init__(self) -> None:
        self.calls: list[AnyCall] = []
        self.now = 0.0
        self.head = 0
        self.tails: dict[str, Offset] = {}
        self.rows: list[Row] = []
        self.events: list[Event] = []
        self.closed: set[str] = set()
        self.finished = False

    def check(self) -> list[Violation]:
        if not self.finished:
            self.finish()
        return check_history(self.calls)

    def rules(self) -> set[str]:
        """Return the names of the promises that are broken."""
        return {violation.rule for violation in self.check()}

    def _record(self, call: AnyCall, fields: dict[str, Any]) -> Any:
        call.start, call.end = self.now + 1, self.now + 2
        self.now += 2
        for name, value in fields.items():
            setattr(call, name, value)
        self.calls.append(call)
        return call

    # Streams

    def create(self, path: str = "s", **fields: Any) -> Create:
        known = self.tails.get(path)
        self.tails[path] = Offset(0 if known is None else known.read_seq + 1, 0)
        self.closed.discard(path)
        self.head += 1
        return self._record(Create(client="c", path=path, new=True, next=self.tails[path]), fields)

    def fork(self, path: str, at: Offset, source: str = "s", **fields: Any) -> Create:
        self.tails[path] = at
        self.head += 1
        return self._record(Create(client="c", path=path, source=source, fork_point=at, new=True, next=at), fields)

    def trim(self, count: int, path: str = "s") -> Offset:
        """Remove the first rows of a stream, and return where it begins now."""
        found = [row for row in self.rows if row.path == path]
        self.rows = [row for row in self.rows if row not in found[:count]]
        return found[count].start

    def append(self, *messages: str, path: str = "s", closes: bool = False, **fields: Any) -> Append:
        self.head += 1
        for message in messages:
            start = self.tails[path]
            self.rows.append(Row(self.head, path, start, message))
            self.tails[path] = Offset(start.read_seq, start.position + size_of((message,)))
        if closes:
            self.closed.add(path)
        call = Append(
            client="c", path=path, messages=messages, closes=closes, next=self.tails[path], closed=path in self.closed
        )
        return self._record(call, fields)

    def produce(self, message: str, seq: int, *, epoch: int = 0, path: str = "s", **fields: Any) -> Append:
        return self.append(message, path=path, producer=ProducerTuple("p", epoch, seq), **fields)

    def retry(self, message: str, seq: int, path: str = "s", **fields: Any) -> Append:
        """Send a producer's append again, which the server recognises."""
        producer = ProducerTuple("p", 0, seq)
        call = Append(
            client="c", path=path, messages=(message,), producer=producer, duplicate=True, next=self.tails[path]
        )
        return self._record(call, fields)

    def refuse(self, refusal: str, *messages: str, path: str = "s", **fields: Any) -> Append:
        return self._record(Append(client="c", path=path, messages=messages, refusal=refusal), fields)

    def delete(self, path: str = "s", **fields: Any) -> Delete:
        self.rows = [row for row in self.rows if row.path != path]
        self.head += 1
        return self._record(Delete(client="c", path=path), fields)

    def head_of(self, path: str = "s", **fields: Any) -> Head:
        return self._record(Head(client="c", path=path, next=self.tails[path], closed=path in self.closed), fields)

    def read(self, path: str = "s", *, skip: int = 0, **fields: Any) -> Read:
        rows = [row for row in self.rows if row.path == path][skip:]
        call = Read(
            client="r",
            path=path,
            since=rows[0].start if skip and rows else None,
            messages=tuple(row.message for row in rows),
            next=self.tails[path],
            up_to_date=True,
            closed=path in self.closed,
        )
        return self._record(call, fields)

    # Events

    def submit(self, id: str, *partitions: str, client: str = "w", **fields: Any) -> Submit:
        names = partitions or ("p",)
        known = next((event for event in self.events if event.id == id), None)
        if known is None:
            self.head += 1
            known = Event(self.head, id, names, f'"{id}"')
            self.events.append(known)
        call = Submit(client=client, id=id, partitions=names, content=known.content, committed_id=known.committed_id)
        return self._record(call, fields)

    def sync(self, since: int = 0, *, size: int = 100, client: str = "r", **fields: Any) -> SyncPage:
        found = [event for event in self.events if event.committed_id > since]
        events, has_more = tuple(found[:size]), len(found) > size
        call = SyncPage(
            client=client,
            partitions=("p",),
            since=since,
            subscribes=True,
            events=events,
            next=events[-1].committed_id if events else since,
            sync_to=self.head,
            has_more=has_more,
        )
        return self._record(call, fields)

    def read_partition(self, since: int = 0, **fields: Any) -> PartitionPage:
        events = tuple(event for event in self.events if event.committed_id > since and "p" in event.partitions)
        end = events[-1].committed_id if events else since
        call = PartitionPage(client="r", partition="p", since=since, events=events, next=end, up_to_date=True)
        return self._record(call, fields)

    def prune(self, floor: int, *partitions: str, **fields: Any) -> Prune:
        """Raise the floors of partitions, and erase the events of these partitions only."""
        names = partitions or ("p",)
        self.head += 1
        self.events = [
            event for event in self.events if event.committed_id > floor or not set(event.partitions).issubset(names)
        ]
        return self._record(Prune(client="a", floors=dict.fromkeys(names, floor)), fields)

    def broadcast(self, id: str, client: str = "r", **fields: Any) -> Broadcast:
        event = next(event for event in self.events if event.id == id)
        return self._record(Broadcast(client=client, event=event), fields)

    # The log

    def finish(self, **fields: Any) -> LogPage:
        self.finished = True
        call = LogPage(
            client="log",
            after=0,
            rows=tuple(self.rows),
            events=tuple(self.events),
            next=self.head,
            up_to_date=True,
        )
        return self._record(call, fields)
