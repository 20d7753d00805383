"""A state for asyncio: typed rows that follow a stream, and the calls that change them."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import BadArgument, TailMoved
from mainstem.client.core.protocol import BEGINNING
from mainstem.client.core.results import Appended
from mainstem.client.state.collection import Collection
from mainstem.client.state.errors import IncompleteSnapshot, StateClosed, StateFailed, StateTimedOut
from mainstem.client.state.messages import Change, Control
from mainstem.client.state.reader import OnInvalid, StateReader
from mainstem.client.state.snapshot import Snapshot, encode_snapshot
from mainstem.client.state.subscription import StateChanges, StateListeners
from mainstem.client.state.view import Rows, View
from mainstem.streams.rules.json_mode import JSON

T = TypeVar("T")


class AsyncState:
    """The rows of a stream: `async with AsyncState(streams, "team/1", users, tasks) as state:`.

    The stream must exist and hold JSON. The state follows it in the background and reconnects automatically.
    `offset` is where it begins: the start of the stream, or the offset of a snapshot.
    `on_invalid` is called with each `InvalidMessage`, which the state then skips. Without it, such a message ends the
    state: every later call raises `StateFailed`, as after any other error that retries do not remove. If there is no
    later call, leaving `async with` raises it.
    """

    def __init__(
        self,
        streams: AsyncStreams,
        path: str,
        *collections: Collection[Any],
        offset: str = BEGINNING,
        on_invalid: OnInvalid | None = None,
        bytes_max: int = limits.CLIENT_STATE_BYTES_MAX,
    ) -> None:
        self.path = path
        self._streams = streams
        self._from = offset
        self._view = View(*collections, bytes_max=bytes_max)
        self._reader = StateReader(path, self._view, on_invalid, start=offset)
        self._listeners = StateListeners()
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._is_reported = False
        """Whether a call has raised the failure. If none has, leaving `async with` raises it."""
        self._news = asyncio.Event()
        """Set, and replaced, when a batch was applied or the state has ended."""

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise BadArgument(f"state {self.path}: open a state only once")
        self._task = asyncio.create_task(self._follow(), name=f"state {self.path}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        if error is None and not self._is_reported:
            self._check_failure()

    # Rows

    def __getitem__(self, collection: Collection[T]) -> Rows[T]:
        """The current rows of a collection. They follow the stream."""
        self._check_failure()
        return self._view[collection]

    @property
    def offset(self) -> str | None:
        """The offset up to which the rows reflect the stream; None before the first reply of the server."""
        return self._reader.offset

    def changes(self) -> StateChanges:
        """Return an async iterator over all changes from now on."""
        self._check_failure()
        listener = self._listeners.add()
        if self._task is None or self._task.done():
            listener.end()
        return listener

    async def synced(self, timeout_s: float = limits.CLIENT_STATE_SYNCED_S) -> None:
        """Wait until the rows have reached the end of the stream since the state was opened or last reset."""
        await self._wait_until(lambda: self._reader.synced, timeout_s, "the rows did not reach the end of the stream")

    async def wait_for_txid(self, txid: str, timeout_s: float = limits.CLIENT_STATE_TXID_S) -> None:
        """Wait until the rows contain a change with this txid."""
        await self._wait_until(lambda: self._reader.has_seen(txid), timeout_s, f"the txid {txid!r} did not arrive")

    # Changing rows

    async def insert(
        self, collection: Collection[T], value: T, *, key: str | None = None, txid: str | None = None
    ) -> Appended:
        """Append an insert. The rows show it as soon as it comes back from the server."""
        return await self.append(collection.insert(value, key, txid=txid))

    async def update(
        self,
        collection: Collection[T],
        value: T,
        *,
        key: str | None = None,
        old_value: T | None = None,
        txid: str | None = None,
    ) -> Appended:
        """Append an update with the whole new value."""
        return await self.append(collection.update(value, key, old_value=old_value, txid=txid))

    async def upsert(
        self, collection: Collection[T], value: T, *, key: str | None = None, txid: str | None = None
    ) -> Appended:
        """Append an upsert. It is an extension of the JavaScript package: other readers may not know it."""
        return await self.append(collection.upsert(value, key, txid=txid))

    async def delete(
        self,
        collection: Collection[T],
        key: str | None = None,
        *,
        old_value: T | None = None,
        txid: str | None = None,
    ) -> Appended:
        """Append a delete, by key or by the old value."""
        return await self.append(collection.delete(key, old_value=old_value, txid=txid))

    async def append(self, *changes: Change) -> Appended:
        """Append several changes at once: all of them or none. Collections make them: `users.insert(user)`."""
        self._check_open()
        types = {collection.type for collection in self._view.collections}
        if foreign := sorted({change.type for change in changes} - types):
            raise BadArgument(f"state {self.path}: it was not opened with a collection of the type {foreign[0]!r}")
        return await self._streams.append_json(self.path, *(change.to_message() for change in changes))

    async def reset(self) -> Appended:
        """Append a reset, which removes all rows, of all types and for all readers."""
        self._check_open()
        return await self._streams.append_json(self.path, Control("reset").to_message())

    async def write_snapshot(self) -> Snapshot:
        """Append all rows between the control messages of a snapshot, in one append.

        The server accepts the snapshot only if it holds the newest change (`If-Match`, which not every server of the
        protocol checks). If other writers are quicker, the call tries again, a limited number of times.
        """
        attempts = 0
        while True:
            await self.synced()
            offset = self._reader.offset
            assert offset is not None
            self._check_complete()
            body, rows = encode_snapshot(self._view, offset)
            try:
                appended = await self._streams.append(self.path, body, content_type=JSON, if_match=offset)
            except TailMoved:
                attempts += 1
                if attempts >= limits.CLIENT_STATE_SNAPSHOT_ATTEMPTS:
                    raise
                await self._wait_until(
                    lambda: self._reader.offset != offset,  # noqa: B023 - it is called before the next round
                    limits.CLIENT_STATE_SYNCED_S,
                    "newer changes did not arrive",
                )
            else:
                return Snapshot(offset=offset, next_offset=appended.next_offset, rows=rows)

    def _check_complete(self) -> None:
        """Raise an error if the rows are not all rows of the stream."""
        if not self._reader.has_base:
            begun = "its beginning was trimmed" if self._from == BEGINNING else f"it was opened at {self._from}"
            raise IncompleteSnapshot(
                f"state {self.path}: {begun}, and the state has read no whole snapshot since, so rows may be missing",
                hint="Open the state at the offset of a snapshot, or reset the state and write its rows again.",
            )
        if self._view.ignored_type is not None:
            raise IncompleteSnapshot(
                f"state {self.path}: the stream has rows of the type {self._view.ignored_type!r}, which the "
                "snapshot would not hold",
                hint="Open the state with a collection for every type of the stream.",
            )
        if self._reader.skipped is not None:
            raise IncompleteSnapshot(
                f"{self._reader.skipped.detail}; the state has skipped it, so the snapshot could undo what other "
                "readers have applied",
                hint="Open the state with models that accept the message, or reset the state and write its rows again.",
            )

    # Following

    async def _follow(self) -> None:
        try:
            async with aclosing(self._streams.follow(self.path, self._from)) as batches:
                async for batch in batches:
                    self._listeners.publish(self._reader.apply(batch))
                    self._announce()
        except Exception as error:  # noqa: BLE001 - every call of the state raises it
            self._failure = error
        finally:
            for listener in self._listeners.end():
                listener.end(self._describe_failure())
                self._is_reported = True
            self._announce()

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _wait_until(self, is_true: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
        """Wait for a condition. `otherwise` says, for the error, what did not happen."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    self._check_failure()
                    if is_true():
                        return
                    self._check_open()
                    if self._reader.closed:
                        raise StateClosed(f"state {self.path}: the stream is closed, and {otherwise}")
                    await self._news.wait()
        except TimeoutError as error:
            raise StateTimedOut(f"state {self.path}: {otherwise} within {timeout_s:g} s") from error

    def _check_open(self) -> None:
        """Raise an error unless the state follows its stream, or has followed it to its end."""
        self._check_failure()
        if self._task is None or (self._task.done() and not self._reader.closed):
            raise StateClosed(f"state {self.path}: it is not open")

    def _check_failure(self) -> None:
        if (failed := self._describe_failure()) is not None:
            self._is_reported = True
            raise failed

    def _describe_failure(self) -> StateFailed | None:
        if self._failure is None:
            return None
        failed = StateFailed(f"state {self.path} has failed: {self._failure}")
        failed.__cause__ = self._failure
        return failed
