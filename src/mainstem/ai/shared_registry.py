"""The registry of runs as all processes share it: each appends to one stream of the server, and follows it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Self

from mainstem import limits
from mainstem.ai.errors import RunsNotOpen
from mainstem.ai.registry import Entry, Registry, RunRecord, Started, decode_entry, encode_entry
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import BadArgument, ClientError, StreamExists, TimedOut
from mainstem.client.core.protocol import BEGINNING
from mainstem.client.core.results import Batch
from mainstem.streams.rules.json_mode import JSON

logger = logging.getLogger(__name__)


class SharedRegistry:
    """Follows the stream in the background between `async with` and its end. `on_entry` is called after each entry."""

    def __init__(
        self, streams: AsyncStreams, path: str, registry: Registry, on_entry: Callable[[Entry], object]
    ) -> None:
        self.registry = registry
        self._streams = streams
        self.path = path
        self._on_entry = on_entry
        self._offset = BEGINNING
        self._caught_up = False
        self._claims: dict[str, asyncio.Future[RunRecord]] = {}
        self._changed = asyncio.Event()
        """Set, and replaced, when entries were applied."""
        self._failure = ""
        """Why the stream could not be followed the last time; empty if it can be followed."""
        self._delay_s = limits.RUN_RETRY_S
        """How long to wait after the next failure."""
        self._ends: dict[str, asyncio.Future[None]] = {}
        """Resolved when the runs with these tokens are no longer active."""
        self._follower: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._create()
        self._follower = asyncio.create_task(self._follow(), name="mainstem-runs-registry")
        try:
            await self._wait_until(lambda: self._caught_up, limits.RUN_WRITE_S)
        except BaseException:
            self._follower.cancel()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._follower is not None
        self._follower.cancel()
        await asyncio.wait([self._follower])
        for token in list(self._ends):
            self._wake(token)

    async def note(self, entry: Entry) -> None:
        """Append an entry. Every process applies it a moment later, this one too."""
        await self._streams.append_json(self.path, encode_entry(entry))

    async def claim(self, record: RunRecord) -> RunRecord:
        """Note the start of a run, and return the run that has the id now: this one, or one that started before it."""
        claim: asyncio.Future[RunRecord] = asyncio.get_running_loop().create_future()
        self._claims[record.token] = claim
        try:
            await self.note(Started(record))
            async with self._time_limit(limits.RUN_WRITE_S):
                return await claim
        finally:
            del self._claims[record.token]

    async def refresh(self) -> None:
        """Return once everything that any process has noted before this call is applied here."""
        end = (await self._streams.head(self.path)).next_offset
        await self._wait_until(lambda: self._offset >= end, limits.RUN_REFRESH_S)

    async def wait_for_end(self, run: RunRecord) -> None:
        """Wait until a run that is active has ended or was forgotten. Raises `RunsNotOpen` once nothing is followed."""
        if self._follower is None or self._follower.done():
            raise RunsNotOpen(f"the end of the run {run.id!r} is unknown: its `Runs` were closed before")
        end = self._ends.get(run.token)
        if end is None:
            end = self._ends[run.token] = asyncio.get_running_loop().create_future()
        await asyncio.shield(end)  # others wait for it, too

    async def _wait_until(self, is_true: Callable[[], bool], timeout_s: float) -> None:
        async with self._time_limit(timeout_s):
            while not is_true():
                await self._changed.wait()

    @asynccontextmanager
    async def _time_limit(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise TimedOut(
                f"the registry of runs, {self.path}, could not be followed for {timeout_s:g} s",
                hint="Check that the server answers, and call again.",
            ) from None

    # Following

    async def _create(self) -> None:
        try:
            await self._streams.create(self.path, JSON, retention=f"max-bytes={limits.RUN_REGISTRY_BYTES}")
        except StreamExists:
            logger.debug("the registry of runs exists with another configuration")

    async def _follow(self) -> None:
        while True:
            try:
                await self._follow_once()
            except ClientError as error:
                self._log_failure(f"the registry of runs is not readable at the moment: {error}")
                if not error.retryable:  # it was deleted, or trimmed beyond what was applied
                    self._offset = BEGINNING
                    self.registry.read_again()
            except Exception as error:  # noqa: BLE001 - nothing may end the following; it is logged
                self._log_failure(f"the registry of runs could not be followed: {error!r}", error)
            await asyncio.sleep(self._delay_s)
            self._delay_s = min(2 * self._delay_s, limits.RUN_RETRY_S_MAX)

    async def _follow_once(self) -> None:
        if self._failure:
            await self._create()  # it may have been deleted
        async with aclosing(self._streams.follow(self.path, self._offset)) as batches:
            async for batch in batches:
                self._apply(batch)
                if self._failure and batch.up_to_date and not batch.closed:
                    logger.info("the registry of runs is readable again")
                    self._failure = ""
                    self._delay_s = limits.RUN_RETRY_S
        raise BadArgument(f"the stream {self.path}, which lists all runs, was closed: delete it")

    def _log_failure(self, failure: str, error: Exception | None = None) -> None:
        """Log a failure once, however often it is repeated: an outage may be long."""
        if failure != self._failure:
            self._failure = failure
            logger.warning("%s", failure, exc_info=error)

    def _apply(self, batch: Batch) -> None:
        for message in batch.raw_messages:
            entry = decode_entry(message)
            if entry is None:
                continue
            self.registry.apply(entry)
            if isinstance(entry, Started):
                self._settle_claim(entry.run)
            self._on_entry(entry)
        self._offset = batch.offset
        if batch.up_to_date:
            self._caught_up = True
            self.registry.forget_unmentioned()
        for token in self.registry.take_removed():
            self._wake(token)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _wake(self, token: str) -> None:
        end = self._ends.pop(token, None)
        if end is not None and not end.done():
            end.set_result(None)

    def _settle_claim(self, started: RunRecord) -> None:
        claim, winner = self._claims.get(started.token), self.registry.active.get(started.id)
        if claim is not None and not claim.done() and winner is not None:
            claim.set_result(winner)
