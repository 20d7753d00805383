"""Group commit: commands wait in a queue, and a batch of them is made durable at once before their callers return."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random, SystemRandom
from typing import Any, Protocol, TypeVar

from mainstem import limits
from mainstem.errors import RETRY_AFTER, MainstemError, Overloaded, ShuttingDown, StoreDamaged, StoreFull
from mainstem.log.commands import Command, Freeing, Key, State, View
from mainstem.log.live import Live
from mainstem.log.records import Kind, Record, TopicId
from mainstem.log.store.base import HeadMoved, Store
from mainstem.metrics.catalogue import Metrics
from mainstem.traces import SettledCommand, Trace, Tracer, current_trace

logger = logging.getLogger(__name__)
T = TypeVar("T")
Clock = Callable[[], int]
SECURE_RANDOM = SystemRandom()


class FutureLike(Protocol):
    """The receiver of a command's outcome: an asyncio future, or an object with the same methods."""

    def cancelled(self) -> bool: ...
    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


Waiting = tuple[Command[Any], FutureLike, int, float, tuple[Trace, int] | None]
"""A command that waits for the next batch, the receiver of its outcome, its size, and since when it waits; if it is
traced, also its trace and the same time in nanoseconds since 1970."""
Outcome = tuple[FutureLike, Any, bool]
"""The receiver of an outcome, the command's result or error, and whether it was accepted."""
Observer = Callable[[Mapping[Key, State | None], Sequence[Record]], None]
"""Called on the event loop with every batch once it is durable, so it must be quick."""


class CommitLog:
    """The only writer of the log. `submit` returns once the command's outcome is durable."""

    def __init__(
        self,
        store: Store,
        live: Live,
        clock_us: Clock,
        random: Random = SECURE_RANDOM,
        metrics: Metrics | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.store = store
        self.live = live
        self.clock_us = clock_us
        self.random = random
        """Where everything that uses the log draws its random values, including secrets."""
        self.observers: list[Observer] = []
        self.resets: list[Callable[[], None]] = []
        """Called when changes by other nodes may have been missed, so that everything must be looked at again."""
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._idle: asyncio.Future[None] | None = None
        """What the committer waits for if the queue is empty."""
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self.tracer = tracer
        """None if nothing is traced."""
        self._taken_ns = 0
        """When the current batch was taken from the queue."""
        self.metrics = metrics or Metrics()
        self._measures = CommitMeasures(self.metrics)
        self.metrics.head.read_with(lambda: self.store.head)
        self.metrics.queue_commands.read_with(lambda: len(self._waiting))
        self.metrics.queue_bytes.read_with(lambda: self._waiting_bytes)

    def start(self) -> None:
        self.store.listen(self)
        self._task = asyncio.create_task(self._run(), name="mainstem-committer")

    async def stop(self) -> None:
        """Refuse further commands, and return once those that wait are finished."""
        self._stopping = True
        self._wake()
        if self._task is not None:
            await self._task

    async def submit(self, command: Command[T]) -> T:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.enqueue(command, outcome, current_trace.get())
        return await outcome

    def enqueue(self, command: Command[Any], future: FutureLike, trace: Trace | None = None) -> None:
        """Queue a command for the next batch. The future receives its outcome, on the event loop."""
        if self._stopping:
            raise ShuttingDown("the server is shutting down and accepts no more writes", headers=RETRY_AFTER)
        size = command.size
        now_s = self.require_room(size)
        self._waiting.append((command, future, size, now_s, None if trace is None else (trace, time.time_ns())))
        self._waiting_bytes += size
        if self._idle is not None:
            self._wake()

    def require_room(self, size: int) -> float:
        """Raise `Overloaded` if a command of this size cannot be queued, and else return the time of the event loop.

        A large request asks before it sends its body.
        """
        now_s = asyncio.get_running_loop().time()
        waiting = self._waiting
        if len(waiting) >= limits.COMMANDS_WAITING_MAX or (
            waiting
            and (
                self._waiting_bytes + size > limits.COMMAND_BYTES_WAITING_MAX
                or now_s - waiting[0][3] > limits.COMMAND_WAIT_S_MAX
            )
        ):
            raise Overloaded(f"{len(waiting)} writes are already waiting for the disk", headers=RETRY_AFTER)
        return now_s

    def _wake(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None and not idle.done():
            idle.set_result(None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = self._take()
            if batch:
                await self._commit_or_fail(batch)
            elif self._waiting:  # those taken were cancelled
                continue
            elif self._stopping:
                return
            else:
                self._idle = loop.create_future()
                await self._idle

    async def _commit_or_fail(self, batch: list[Waiting]) -> None:
        """Commit a batch, or give its callers the error."""
        self._taken_ns = time.time_ns()
        try:
            await self._commit_if_room(batch)
        except StoreDamaged as error:
            await self.store.release()
            if len(batch) == 1:
                self._fail(batch, error)
            else:  # only those fail whose states cannot be read
                for waiting in batch:
                    if not waiting[1].done():
                        await self._commit_or_fail([waiting])
        except MainstemError as error:
            await self.store.release()
            self._fail(batch, error)
        except Exception as error:
            logger.exception("a batch of %d commands failed", len(batch))
            await self.store.release()
            self._fail(batch, error)

    def _take(self, taken: Sequence[Waiting] = ()) -> list[Waiting]:
        """Take from the queue what still fits into one batch with the commands in `taken`.

        Commands whose callers have left are dropped.
        """
        queue = self._waiting
        room = limits.BATCH_COMMANDS_MAX - len(taken)
        bytes_left = limits.BATCH_BYTES_MAX - sum(waiting[2] for waiting in taken)
        if len(queue) <= room and self._waiting_bytes <= bytes_left:  # the common case: all of them fit
            batch = [waiting for waiting in queue if not waiting[1].cancelled()]
            queue.clear()
            self._waiting_bytes = 0
            return batch
        batch = []
        while queue and len(batch) < room:
            size = queue[0][2]
            if (batch or taken) and size > bytes_left:
                break
            waiting = queue.popleft()
            self._waiting_bytes -= size
            if not waiting[1].cancelled():
                bytes_left -= size
                batch.append(waiting)
        return batch

    async def _commit_if_room(self, batch: list[Waiting]) -> None:
        """Commit a batch. On a full disk, retry only the commands that free space, with the space reserved for them."""
        if self.store.nearly_full:
            full = StoreFull(
                "nothing was stored: the remaining disk space is reserved for deletes", headers=RETRY_AFTER
            )
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
        began_s = time.perf_counter()
        waited_s = asyncio.get_running_loop().time() - batch[0][3]
        keys = _needs(batch)
        while True:
            states = await self.store.load(keys)
            if self.store.holds_head and self._waiting:  # it waited for other nodes: add commands that came meanwhile
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
                    self._measures.count(len(batch), view.records, waited_s, began_s)
                    self.publish(view.changes, view.records)
                else:
                    await self.store.confirm()
                break
            except HeadMoved:
                continue  # another node committed; commands are pure, so they decide again from the new states
        if self.tracer is not None:
            self._trace(batch, outcomes, view.records)
        _set_outcomes(outcomes)

    async def catch_up(self) -> None:
        """Return once this node has published everything that was durable when this was called."""
        await self.store.catch_up()

    def _apply(self, batch: list[Waiting], view: View) -> list[Outcome]:
        outcomes: list[Outcome] = []
        run = view.run
        for command, future, _, _, _ in batch:
            try:
                outcomes.append((future, run(command), True))
            except Exception as error:
                if not isinstance(error, MainstemError):
                    logger.error("a command raised an unexpected error", exc_info=error)
                self._measures.reject(error)
                outcomes.append((future, error, False))
        return outcomes

    # Publishing what became durable, on this node or another

    def publish(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        self.live.publish(records)
        for observe in self.observers:
            try:
                observe(changes, records)
            except Exception:  # the batch is durable, so its callers must get their outcomes all the same
                logger.exception("an observer of the log failed")

    def watched_topics(self) -> Sequence[TopicId]:
        return self.live.watched_topics()

    def reset_observers(self) -> None:
        for reset in self.resets:
            reset()

    def _fail(self, batch: list[Waiting], error: Exception) -> None:
        unsettled = [waiting for waiting in batch if not waiting[1].done()]
        if unsettled:
            failed: list[Outcome] = [(waiting[1], error, False) for waiting in unsettled]
            self._measures.reject(error, len(failed))
            if self.tracer is not None:
                self._trace(unsettled, failed, ())
            _set_outcomes(failed)

    def _trace(self, batch: Sequence[Waiting], outcomes: Sequence[Outcome], records: Sequence[Record]) -> None:
        """Report the traced commands of a batch that has its outcomes."""
        now_ns = time.time_ns()
        first_id, last_id = (records[0].committed_id, records[-1].committed_id) if records else (0, 0)
        for (command, _, _, _, traced), (_, value, accepted) in zip(batch, outcomes, strict=True):
            if traced is None:
                continue
            trace, enqueued_ns = traced
            taken_ns = max(self._taken_ns, enqueued_ns)  # some join a batch that was taken earlier
            try:
                trace.add_command(
                    SettledCommand(
                        command, value, accepted, enqueued_ns, taken_ns, now_ns, len(batch), first_id, last_id
                    )
                )
            except Exception:  # a caller must get its outcome all the same
                logger.exception("a command could not be added to its trace")


class CommitMeasures:
    """Counts what is committed. The instruments are found once, because this is part of every commit."""

    def __init__(self, metrics: Metrics) -> None:
        self._commits = metrics.commits.of()
        self._bytes = metrics.record_bytes.of()
        self._records = {kind: metrics.records.of(kind.name.lower()) for kind in Kind}
        self._batch_commands = metrics.batch_commands.of()
        self._queue_seconds = metrics.queue_seconds.of()
        self._commit_seconds = metrics.commit_seconds.of()
        self._rejected = metrics.rejected

    def count(self, commands: int, records: Sequence[Record], waited_s: float, began_s: float) -> None:
        """Count a batch that is durable."""
        self._commits.value += 1
        self._bytes.value += sum([len(record.data) for record in records])
        for kind, number in Counter([record.kind for record in records]).items():
            self._records[kind].value += number
        self._batch_commands.observe(commands)
        self._queue_seconds.observe(waited_s)
        self._commit_seconds.observe(time.perf_counter() - began_s)

    def reject(self, error: Exception, commands: int = 1) -> None:
        self._rejected.of(error.code if isinstance(error, MainstemError) else MainstemError.code).add(commands)


def _needs(batch: Sequence[Waiting]) -> dict[Key, None]:
    return {key: None for command, _, _, _, _ in batch for key in command.needs()}


def _set_outcomes(outcomes: Iterable[Outcome]) -> None:
    """Set the outcomes of commands. A future that fails must not keep the others from their outcomes."""
    for future, value, accepted in outcomes:
        try:
            if future.cancelled():
                continue
            if accepted:
                future.set_result(value)
            else:
                future.set_exception(value)
        except Exception:
            logger.exception("the outcome of a command could not be delivered to its caller")
