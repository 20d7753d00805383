"""The highest committed id that was pruned of the streams or partitions that a reader selects.

A selection that names its streams or partitions costs one lookup of each. For any other selection the server reads the
states of all streams that it may match, or of all partitions, in small steps. It then keeps the answer up to date with
every commit.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from mainstem import limits
from mainstem.globs import compile_glob
from mainstem.log.commands import Key, Space, State
from mainstem.log.commit import CommitLog
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.records import Kind, Record
from mainstem.server.log_api.selection import Selection
from mainstem.streams.states import STREAMS, StreamState, stream_key
from mainstem.sync.states import PARTITIONS, PartitionState, partition_key

Filters = tuple[str | None, tuple[str, ...], str]
"""What decides about an answer: the kind, globs and prefix of a selection."""


class PrunedIds:
    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._known: dict[Filters, Highest] = {}
        """Answers that are kept up to date. The one that was used last comes last."""
        self._scan_turn = asyncio.Semaphore(1)
        log.store.watch_spaces(STREAMS, PARTITIONS)
        log.observers.append(self._observe)
        log.resets.append(self._forget)

    def stop(self) -> None:
        self._log.observers.remove(self._observe)
        self._log.resets.remove(self._forget)

    async def find(self, selection: Selection) -> int:
        """Return the highest id that was pruned of what a selection reads; 0 if nothing was.

        What was pruned of a stream that is deleted now does not count, unless the selection is the whole log.
        """
        store = self._log.store
        pruned: Pruned | None = await store.get(PRUNED_KEY)
        if pruned is None:
            return 0
        if selection.is_whole:
            return pruned.until
        if selection.partitions:
            keys = [partition_key(name) for name in selection.partitions]
        elif selection.streams and not any("*" in pattern for pattern in selection.streams):
            keys = [stream_key(path) for path in selection.streams if selection.takes_stream(path)]
        else:
            return max(pruned.unattributed, await self._find_highest(selection))
        states = await store.get_many(keys)
        return max([pruned.unattributed, *map(_pruned_id, states.values())])

    async def _find_highest(self, selection: Selection) -> int:
        filters = selection.kind, selection.streams, selection.prefix
        async with self._scan_turn:
            highest = self._known.pop(filters, None)
            if highest is not None:
                self._known[filters] = highest
                return highest.id
            while len(self._known) >= limits.PRUNED_SELECTIONS_MAX:
                del self._known[next(iter(self._known))]
            highest = self._known[filters] = Highest(selection)  # before the scan, so that no commit is missed
            try:
                await self._scan(highest)
            except BaseException:
                self._known.pop(filters, None)
                raise
            return highest.id

    async def _scan(self, highest: "Highest") -> None:
        after = ""
        while page := await self._log.store.scan(highest.space, highest.prefix, after, limits.SCAN_PAGE):
            for name, state in page:
                highest.add(name, state)
            after = page[-1][0]
        highest.complete = True

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        if not self._known:
            return
        for key, state in changes.items():
            if key.space is STREAMS or key.space is PARTITIONS:
                for filters, highest in list(self._known.items()):
                    if highest.space is key.space and not highest.add(key.name, state):
                        del self._known[filters]

    def _forget(self) -> None:
        self._known.clear()


class Highest:
    """The highest pruned id of a selection, of the states that it has been given so far."""

    def __init__(self, selection: Selection) -> None:
        self.id = 0
        self.complete = False
        self.space: Space[Any] = STREAMS if Kind.APPEND in selection.kinds else PARTITIONS
        self._globs = [compile_glob(pattern) for pattern in selection.streams]
        self._prefix = selection.prefix
        only = selection.streams[0] if len(selection.streams) == 1 else ""
        literal = only.partition("*")[0].rstrip("/")  # `a/**` matches `a` too
        self.prefix = max(literal, self._prefix, key=len)
        """A prefix of all names that can match."""

    def add(self, name: str, state: StreamState | PartitionState | Any) -> bool:
        """Take a state into account. Return False if the highest id has to be looked up again without it."""
        if isinstance(state, StreamState) and (state.deleted or state.soft_deleted):
            concerns = state.pruned_id and (state.pruned_id >= self.id or not self.complete)
            return not (concerns and self._matches(name))
        found = _pruned_id(state)
        if found > self.id and self._matches(name):
            self.id = found
        return True

    def _matches(self, name: str) -> bool:
        if not name.startswith(self._prefix):
            return False
        return not self._globs or any(pattern.matches(name) for pattern in self._globs)


def _pruned_id(state: Any) -> int:
    if isinstance(state, PartitionState):
        return state.erased_id
    if isinstance(state, StreamState) and not (state.deleted or state.soft_deleted):
        return state.pruned_id
    return 0
