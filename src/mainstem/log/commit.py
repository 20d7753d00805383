"""Group commit: commands wait in a queue, a batch of them shares one durable step, then their callers are answered."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mainstem import limits
from mainstem.errors import RETRY_AFTER, MainstemError, Overloaded, ShuttingDown, StoreFull
from mainstem.log.commands import Command, Freeing, Key, State, View
from mainstem.log.live import Live
from mainstem.log.records import Record, TopicId
from mainstem.log.store.base import HeadMoved, Store

logger = logging.getLogger(__name__)
T = TypeVar("T")
Clock = Callable[[], int]


class FutureLike(Protocol):
    """What a command's outcome is set on: an asyncio future, or anything that takes it in the same way."""

    def cancelled(self) -> bool: ...
    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


Waiting = tuple[Command[Any], FutureLike]
Observer = Callable[[Mapping[Key, State | None], Sequence[Record]], None]
"""Is told of every batch once it is durable, on the event loop: it must be quick."""


class CommitLog:
    """The one writer of the log. `submit` returns when the command's outcome is durable."""

    def __init__(self, store: Store, live: Live, clock_us: Clock) -> None:
        self.store = store
        self.live = live
        self.clock_us = clock_us
        self.observers: list[Observer] = []
        self.resets: list[Callable[[], None]] = []
        """Are called when changes of other nodes may have been missed, so that all must be looked at again."""
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._arrived = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.store.listen(self)
        self._task = asyncio.create_task(self._run(), name="mainstem-committer")

    async def stop(self) -> None:
        """Take no more commands, finish those that wait."""
        self._stopping = True
        self._arrived.set()
        if self._task is not None:
            await self._task

    async def submit(self, command: Command[T]) -> T:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.enqueue(command, outcome)
        return await outcome

    def enqueue(self, command: Command[Any], future: FutureLike) -> None:
        """Add a command to the next batch. Its outcome is set on the future, on the event loop."""
        if self._stopping:
            raise ShuttingDown("this server takes no more writes", headers=RETRY_AFTER)
        if (
            len(self._waiting) >= limits.COMMANDS_WAITING_MAX
            or self._waiting_bytes + command.size > limits.COMMAND_BYTES_WAITING_MAX
        ):
            raise Overloaded(f"{len(self._waiting)} writes wait for the disk already", headers=RETRY_AFTER)
        self._waiting.append((command, future))
        self._waiting_bytes += command.size
        self._arrived.set()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            batch = self._take()
            if batch:
                try:
                    await self._commit_if_room(batch)
                except MainstemError as error:
                    await self.store.release()
                    self._fail(batch, error)
                except Exception as error:
                    logger.exception("a batch of %d commands failed", len(batch))
                    await self.store.release()
                    self._fail(batch, error)
            elif self._stopping:
                return
            else:
                self._arrived.clear()

    def _take(self, taken: Sequence[Waiting] = ()) -> list[Waiting]:
        """What comes next, as far as it fits into one batch with what was taken before."""
        batch: list[Waiting] = []
        size = sum(command.size for command, _ in taken)
        while self._waiting and len(taken) + len(batch) < limits.BATCH_COMMANDS_MAX:
            command, future = self._waiting[0]
            if (batch or taken) and size + command.size > limits.BATCH_BYTES_MAX:
                break
            self._waiting.popleft()
            self._waiting_bytes -= command.size
            if not future.cancelled():  # a caller that is gone before its turn has changed nothing
                size += command.size
                batch.append((command, future))
        return batch

    async def _commit_if_room(self, batch: list[Waiting]) -> None:
        """On a full disk only commands that free some room are tried again, with the room that is kept for them."""
        if self.store.nearly_full:
            full = StoreFull("nothing was stored: the room that is left is kept for deletes", headers=RETRY_AFTER)
            freeing = self._fail_growing(batch, full)
        else:
            try:
                await self._commit(batch)
                return
            except StoreFull as error:
                freeing = self._fail_growing(batch, error)
                if not freeing:
                    return
                await self.store.release()
                if not await self.store.make_room():
                    raise
        if freeing:
            await self._commit(freeing)

    def _fail_growing(self, batch: list[Waiting], error: StoreFull) -> list[Waiting]:
        self._fail([waiting for waiting in batch if not isinstance(waiting[0], Freeing)], error)
        return [waiting for waiting in batch if isinstance(waiting[0], Freeing)]

    async def _commit(self, batch: list[Waiting]) -> None:
        keys = _needs(batch)
        while True:
            states = await self.store.load(keys)
            if self.store.holds_head and self._waiting:  # it waited for other nodes; what came meanwhile joins in
                more = self._take(batch)
                batch += more
                late = {key: None for key in _needs(more) if key not in keys}
                keys.update(late)
                states.update(await self.store.load_more(late))
            view = View(states, self.store.head, self.clock_us())
            outcomes = self._apply(batch, view)
            try:
                if view.changes or view.records:
                    await self.store.save(view.changes, view.records, view.head)
                    self.publish(view.changes, view.records)
                else:
                    await self.store.confirm()
                break
            except HeadMoved:
                continue  # by another node: commands are pure, so they decide anew from what it has left
        for future, value, accepted in outcomes:
            _set_outcome(future, value, accepted)

    async def catch_up(self) -> None:
        """Return when the readers of this node have been told of all that was durable when this was called."""
        await self.store.catch_up()

    @staticmethod
    def _apply(batch: list[Waiting], view: View) -> list[tuple[FutureLike, Any, bool]]:
        outcomes: list[tuple[FutureLike, Any, bool]] = []
        for command, future in batch:
            try:
                outcomes.append((future, view.run(command), True))
            except Exception as error:
                if not isinstance(error, MainstemError):
                    logger.error("a command raised an unexpected error", exc_info=error)
                outcomes.append((future, error, False))
        return outcomes

    # What became durable, here or on another node

    def publish(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        self.live.publish(records)
        for observe in self.observers:
            try:
                observe(changes, records)
            except Exception:  # what is durable stays durable, whatever an observer makes of it
                logger.exception("an observer of the log failed")

    def watched_topics(self) -> Sequence[TopicId]:
        return self.live.watched_topics()

    def reset_observers(self) -> None:
        for reset in self.resets:
            reset()

    @staticmethod
    def _fail(batch: list[Waiting], error: Exception) -> None:
        for _, future in batch:
            if not future.done():
                _set_outcome(future, error, False)


def _needs(batch: Sequence[Waiting]) -> dict[Key, None]:
    return {key: None for command, _ in batch for key in command.needs()}


def _set_outcome(future: FutureLike, value: Any, accepted: bool) -> None:
    """A future that does not take its outcome must not keep the others from getting theirs."""
    try:
        if future.cancelled():
            return
        if accepted:
            future.set_result(value)
        else:
            future.set_exception(value)
    except Exception:
        logger.exception("the caller of a command could not be told of its outcome")
