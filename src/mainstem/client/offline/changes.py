"""What an application is told of: changes of the view, of the connection, and what needs its attention."""

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
    """Where the client stands. `error` is why it is offline, or what the server refused."""

    state: State
    error: ClientError | None = None


class Drafted(msgspec.Struct, frozen=True):
    """Drafts joined the view."""

    ids: tuple[str, ...]


class EventsCommitted(msgspec.Struct, frozen=True):
    """Events joined the committed copy: so many, with ids from `first` to `last`. `drafts` are own ones among them."""

    events: int
    first: int
    last: int
    drafts: tuple[str, ...] = ()


class Rejected(msgspec.Struct, frozen=True):
    """The server will not commit a draft. It has left the view."""

    id: str
    reason: str
    errors: tuple[FieldFault, ...]


class StatusChanged(msgspec.Struct, frozen=True):
    status: Status


class Reported(msgspec.Struct, frozen=True):
    """Something that the application should know: a partition was refused, history was pruned, the log is another."""

    error: SyncClientError


class Missed(msgspec.Struct, frozen=True):
    """The listener was too slow, and so many changes were dropped: read views and rejections again."""

    changes: int


Change = Drafted | EventsCommitted | Rejected | StatusChanged | Reported | Missed


class Changes(AsyncIterator[Change]):
    """Changes from the call of `client.changes()` on. It ends when the client is closed."""

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
    """Whoever listens. One that was dropped is forgotten with its last reference."""

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
