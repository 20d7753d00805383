"""The ends of runs: of those of this process, and of those whose processes were lost."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any

from mainstem import limits
from mainstem.ai.errors import StreamInUse
from mainstem.ai.execution import append
from mainstem.ai.formats import last_message, read_outcome
from mainstem.ai.pieces import encode_piece
from mainstem.ai.registry import Ended, Outcome, RunRecord
from mainstem.ai.shared_registry import SharedRegistry
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import ClientError, Forbidden, ProducerGap, StreamClosed, Unauthorized, may_repeat
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.json_mode import JSON

logger = logging.getLogger(__name__)

Attempt = Callable[[], Coroutine[Any, Any, None]]


class Endings:
    """Ends runs, notes how they ended, and tries again what failed."""

    def __init__(self, streams: AsyncStreams, shared: SharedRegistry, workers: Collection[str] | None) -> None:
        """`workers` are all that can have the log open, if only this process can."""
        self._streams = streams
        self._shared = shared
        self._workers = workers
        self.held: set[str] = set()
        """The tokens of runs that this process is to end, until the registry says that they have ended."""
        self._unnoted: dict[str, tuple[RunRecord, Attempt]] = {}
        """How to note the ends of runs of this process, by their tokens, as long as the registry does not have them."""
        self._attempted: set[str] = set()
        """The tokens of runs whose end is being noted."""
        self._turns = asyncio.Semaphore(limits.RUN_APPENDS_MAX)

    async def run(self) -> None:
        """End the runs of processes that are lost, and those of this one whose start or end failed halfway."""
        async with asyncio.TaskGroup() as group:
            while True:
                for run, attempt in self._find_due():
                    if run.token not in self._attempted:
                        self._attempted.add(run.token)
                        group.create_task(self._try_in_turn(run, attempt))
                await asyncio.sleep(limits.RUN_HEARTBEAT_S)

    async def end(self, run: RunRecord, outcome: Outcome, reason: str) -> None:
        """Note how a run of this process has ended. If that fails, it is tried again in the background."""
        if outcome == "lost":
            attempt: Attempt = partial(self.end_lost, run, reason)
        else:
            attempt = partial(self._shared.note, Ended(run.id, run.token, outcome, reason))
        self._unnoted[run.token] = run, attempt
        self._attempted.add(run.token)
        await self._try_to_end(run, attempt)

    async def end_lost(self, run: RunRecord, reason: str = "") -> None:
        """End a run whose process was lost, and whose stream may be unusable by now."""
        outcome: Outcome = "lost"
        try:
            outcome, reason = await self._write_loss(run, reason)
        except (Unauthorized, Forbidden):
            raise  # another process may be allowed to end it, or this one later
        except ClientError as error:
            if may_repeat(error):
                raise
            logger.info("the stream of the lost run %s takes no last message: %s", run.id, error)
        await self._shared.note(Ended(run.id, run.token, outcome, reason))

    async def read_outcome(self, stream: str) -> tuple[Outcome, str]:
        """Return how the run that has closed a stream ended, and why."""
        end = await self._streams.read_tail(stream, 1)
        if not is_json(end.content_type):
            raise StreamInUse(f"the stream {stream!r} has the content type {end.content_type}, not {JSON}")
        return read_outcome(end.messages[-1] if end.messages else None)

    def take(self, ended: Ended) -> None:
        """Take note that the registry has the end of a run."""
        self.held.discard(ended.token)
        self._unnoted.pop(ended.token, None)

    async def _write_loss(self, run: RunRecord, reason: str) -> tuple[Outcome, str]:
        """Write the last message of a lost run, unless its stream has one. Return how the run has ended, and why.

        The next epoch of its producer keeps the process that was lost from writing more.
        """
        try:
            if await self._is_writable(run):
                message = encode_piece(last_message(run.format, "lost", reason))
                await append(self._streams, run.stream, b"[%b]" % message, (run.token, 1, 0), close=run.closes)
        except StreamClosed:
            found, why = await self.read_outcome(run.stream)
            if found != "finished" or not reason:  # the run has ended, and only the note is missing
                return found, why
        return "lost", reason

    async def _is_writable(self, run: RunRecord) -> bool:
        """Return whether a stream is still that of a run, and not a later one at its path, with data of others.

        The server refuses an append with a number that is far too high, and says which number it expects: the first
        one, if the stream has nothing from this producer.
        """
        try:
            await append(self._streams, run.stream, b"[null]", (run.token, 0, limits.INTEGER_MAX), close=False)
        except ProducerGap as gap:
            if run.closes and gap.expected_seq == 0:
                return (await self._streams.read_tail(run.stream, 1)).empty
        return True

    def _find_due(self) -> list[tuple[RunRecord, Attempt]]:
        registry = self._shared.registry
        abandoned = [
            run for run in registry.active.values() if run.worker == registry.worker and run.token not in self.held
        ]
        orphans = [] if self._workers is None else registry.find_orphans(self._workers)
        lost = [*registry.find_lost(), *abandoned, *orphans]
        return [*((run, partial(self._end_if_active, run)) for run in lost), *self._unnoted.values()]

    async def _end_if_active(self, run: RunRecord) -> None:
        """End a lost run, unless another process has ended it in the meantime."""
        if self._shared.registry.look_up(run).active:
            await self.end_lost(run)

    async def _try_in_turn(self, run: RunRecord, attempt: Attempt) -> None:
        async with self._turns:
            await self._try_to_end(run, attempt)

    async def _try_to_end(self, run: RunRecord, attempt: Attempt) -> None:
        try:
            await attempt()
        except ClientError as error:
            logger.warning("the run %s could not be ended yet: %s", run.id, error)
        except Exception:
            logger.exception("the run %s could not be ended yet", run.id)
        finally:
            self._attempted.discard(run.token)
