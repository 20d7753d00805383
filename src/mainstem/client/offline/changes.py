"""The changes that a client reports to its application: in views, in the connection, and in what needs attention."""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from enum import Enum

import msgspec

from mainstem import limits
from mainstem.client.core.errors import ClientError
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault


class State(Enum):
    OFFLINE = "offline"
    CONNECTING = "connecting"
    SYNCING = "syncing"
    LIVE = "live"


class Status(msgspec.Struct, frozen=True):
    """The state of the connection. `error` says why the client is offline, or what the server refused."""

    state: State
    error: ClientError | None = None


class Drafted(msgspec.Struct, frozen=True):
    """Drafts were added to the views."""

    ids: tuple[str, ...]


class EventsCommitted(msgspec.Struct, frozen=True):
    """Events were added to the committed copy.

    `events` is their number, `first` and `last` are committed ids, and `drafts` holds the ids of this client's own.
    """

    events: int
    first: int
    last: int
    drafts: tuple[str, ...] = ()


class Rejected(msgspec.Struct, frozen=True):
    """The server refused a draft. It is no longer part of the views."""

    id: str
    reason: str
    errors: tuple[FieldFault, ...]


class StatusChanged(msgspec.Struct, frozen=True):
    status: Status


class Reported(msgspec.Struct, frozen=True):
    """Something the application should know about: a refused partition, pruned history, or another log."""

    error: SyncClientError


class Missed(msgspec.Struct, frozen=True):
    """The listener was too slow and missed this number of changes. Read views and rejections again."""

    changes: int


Change = Drafted | EventsCommitted | Rejected | StatusChanged | Reported | Missed


class Changes(AsyncIterator[Change]):
    """The changes since the call of `client.changes()`. The iterator ends when the client is closed."""

    def __init__(self) -> None:
        self._waiting: deque[Change] = deque()
        self._wakeup = asyncio.Event()
        self._is_over = False

    def put(self, change: Change) -> None:
        if len(self._waiting) >= limits.OFFLINE_CHANGES_MAX:
            missed = sum(old.changes if isinstance(old, Missed) else 1 for old in self._waiting)
            self._waiting.clear()
            self._waiting.append(Missed(missed))
        self._waiting.append(change)
        self._wakeup.set()

    def end(self) -> None:
        self._is_over = True
        self._wakeup.set()

    async def __anext__(self) -> Change:
        while not self._waiting:
            if self._is_over:
                raise StopAsyncIteration
            self._wakeup.clear()
            await self._wakeup.wait()
        return self._waiting.popleft()


class Listeners:
    """All listeners of a client. A listener ends with the last reference to it."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Changes] = weakref.WeakSet()

    def add(self) -> Changes:
        changes = Changes()
        self._all.add(changes)
        return changes

    def publish(self, change: Change) -> None:
        for listener in self._all:
            listener.put(change)

    def end(self) -> None:
        for listener in self._all:
            listener.end()
