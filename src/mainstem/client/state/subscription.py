"""Subscriptions: what changes in a state, for listeners that may be slow."""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable

import msgspec

from mainstem import limits
from mainstem.client.core.errors import ClientError
from mainstem.client.state.messages import Control
from mainstem.client.state.view import RowChanged


class Missed(msgspec.Struct, frozen=True):
    """The listener was too slow and missed this number of changes. Read the rows again."""

    changes: int


StateChange = RowChanged | Control | Missed
"""What `StateChanges` yields."""


class StateChanges(AsyncIterator[StateChange]):
    """The changes since the call of `state.changes()`. It ends with the state, and raises an error if the state fails.

    If too many changes wait, the listener receives `Missed` in place of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[StateChange] = deque()
        self._wakeup = asyncio.Event()
        self._is_over = False
        self._error: ClientError | None = None

    def put(self, change: StateChange) -> None:
        if len(self._waiting) >= limits.CLIENT_STATE_CHANGES_MAX:
            missed = sum(old.changes if isinstance(old, Missed) else 1 for old in self._waiting)
            self._waiting.clear()
            self._waiting.append(Missed(missed))
        self._waiting.append(change)
        self._wakeup.set()

    def end(self, error: ClientError | None = None) -> None:
        """End the iterator after the changes that wait, with an error if there is one."""
        self._is_over = True
        self._error = error
        self._wakeup.set()

    async def __anext__(self) -> StateChange:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise StopAsyncIteration
            self._wakeup.clear()
            await self._wakeup.wait()
        return self._waiting.popleft()


class StateListeners:
    """All listeners of a state. A listener ends with the last reference to it."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[StateChanges] = weakref.WeakSet()

    def add(self) -> StateChanges:
        listener = StateChanges()
        self._all.add(listener)
        return listener

    def publish(self, changes: Iterable[StateChange]) -> None:
        for change in changes:
            for listener in self._all:
                listener.put(change)

    def end(self) -> list[StateChanges]:
        """Return the listeners, which receive nothing more."""
        listeners = list(self._all)
        self._all.clear()
        return listeners
