"""The hub: offers each committed event, encoded once, to all connections that subscribe to one of its partitions."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from mainstem.log.commands import Key, State
from mainstem.log.commit import CommitLog
from mainstem.log.records import Kind, Record
from mainstem.sync.protocol.effects import Send
from mainstem.sync.protocol.feed import broadcast
from mainstem.sync.throttling import DraftQuota

EVENT = Kind.EVENT  # looking up a member of an enum takes longer than the rest of a comparison


class Receiver(Protocol):
    def offer(self, record: Record, message: Send) -> None: ...


Receivers = dict[Receiver, None]
"""Those who subscribe, the first one first."""


class Hub:
    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.head: int = log.store.head
        """The committed id up to which all events have been offered to the connections."""
        self.draft_quota = DraftQuota()
        self._by_partition: dict[str, Receivers] = {}

    def start(self) -> None:
        self.head = self.log.store.head
        self.log.observers.append(self._observe)

    def stop(self) -> None:
        self.log.observers.remove(self._observe)

    def subscribe(self, receiver: Receiver, partitions: Sequence[str]) -> None:
        for name in partitions:
            self._by_partition.setdefault(name, {})[receiver] = None

    def unsubscribe(self, receiver: Receiver, partitions: Sequence[str]) -> None:
        for name in partitions:
            receivers = self._by_partition.get(name)
            if receivers is not None:
                receivers.pop(receiver, None)
                if not receivers:
                    del self._by_partition[name]

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        for record in records:
            if record.kind is EVENT:
                self._offer(record)
        self.head = self.log.store.head

    def _offer(self, record: Record) -> None:
        tags = record.tags
        receivers = self._by_partition.get(tags[0], {}) if len(tags) == 1 else self._union(tags)
        if receivers:
            message = broadcast(record)
            for receiver in receivers:
                receiver.offer(record, message)

    def _union(self, tags: Sequence[str]) -> Receivers:
        found: Receivers = {}
        for name in tags:
            found |= self._by_partition.get(name, {})
        return found
