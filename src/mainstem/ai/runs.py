"""Runs: sources of text or events that are written to streams, detached from the requests that started them.

A run belongs to one process. All processes with the same registry, one stream of the server, know of all runs, can stop
each of them, and end those of a process that was lost.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self

import msgspec

from mainstem import limits
from mainstem.access import OWN_STREAMS
from mainstem.ai.errors import RunNotFound, StreamInUse, TooManyRuns
from mainstem.ai.execution import JSON, Execution, Source, append, close_source
from mainstem.ai.formats import DEFAULT_REASONS, Format, last_message
from mainstem.ai.pieces import encode_piece
from mainstem.ai.registry import (
    Ended,
    Entry,
    Heartbeat,
    Registry,
    RunRecord,
    Started,
    Status,
    Stopped,
    decode_entry,
    encode_entry,
)
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import (
    BadArgument,
    ClientError,
    NotFound,
    StaleEpoch,
    StreamClosed,
    StreamExists,
    StreamGone,
)
from mainstem.client.core.protocol import BEGINNING
from mainstem.client.core.results import Batch, StreamInfo
from mainstem.timestamps import format_seconds

logger = logging.getLogger(__name__)

REGISTRY: Final = OWN_STREAMS + "runs"


class App(Protocol):
    """An embedded app, as `create_app` returns it."""

    def client(self) -> AsyncStreams: ...

    def lifespan(self, app: object = None) -> Any: ...


class Run:
    """A run, wherever it runs. `runs.find(id)` returns its present state again."""

    def __init__(self, runs: "Runs", record: RunRecord, *, new: bool = False) -> None:
        self._runs = runs
        self._record = record
        self.new = new
        """Whether this call has started the run."""

    @property
    def record(self) -> RunRecord:
        return self._record

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def stream(self) -> str:
        """The path of the stream that the run is written to."""
        return self._record.stream

    @property
    def tag(self) -> str:
        return self._record.tag

    @property
    def started_at(self) -> str:
        return self._record.started_at

    @property
    def status(self) -> Status:
        return self._current.status

    @property
    def reason(self) -> str:
        """Why the run has not finished."""
        return self._current.reason

    @property
    def active(self) -> bool:
        return self._current.active

    async def wait(self) -> Status:
        """Wait until the run has ended, and return how."""
        while self._current.active:
            await self._runs.wait_for_change()
        return self._current.status

    async def stop(self, reason: str = "") -> Status:
        """Stop the run, wherever it runs. Return once the stop is durable; `wait` returns once the run has ended."""
        return await self._runs.stop(self.id, reason)

    def follow(self, offset: str = BEGINNING) -> AsyncGenerator[Batch, None]:
        """Yield what the run has written and what it writes, until its stream is closed."""
        return self._runs.streams.follow(self.stream, offset)

    @property
    def _current(self) -> RunRecord:
        found = self._runs.registry.find(self.id)
        if found is not None and found.token == self._record.token:
            self._record = found
        return self._record


class Runs:
    """The runs of an app: `async with Runs(AsyncStreams(url)) as runs:`, or `FastAPI(lifespan=Runs(log).lifespan)`.

    `server` is a client of a server, or an embedded app from `create_app`, whose lifespan `Runs.lifespan` runs too.
    `prefix` begins the paths of streams that are not chosen by the caller. `describe_error` returns what readers learn
    about an exception of a source; by default they learn only that there was one, and it is logged.
    """

    def __init__(
        self,
        server: AsyncStreams | App,
        *,
        prefix: str = "runs",
        registry: str = REGISTRY,
        describe_error: Callable[[Exception], str] = lambda error: DEFAULT_REASONS["failed"],
    ) -> None:
        self._app = None if isinstance(server, AsyncStreams) else server
        self.streams: AsyncStreams = server if isinstance(server, AsyncStreams) else server.client()
        self.prefix = prefix
        self.registry = Registry()
        self._registry_path = registry
        self._describe_error = describe_error
        self._worker = uuid.uuid4().hex
        self._executions: dict[str, tuple[RunRecord, Execution, asyncio.Task[None]]] = {}
        self._beginning: dict[str, asyncio.Task[Run]] = {}
        self._claims: dict[str, asyncio.Future[RunRecord]] = {}
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    # Its own life

    async def __aenter__(self) -> Self:
        await self._create_registry()
        self._tasks = [
            asyncio.create_task(self._follow_registry(), name="mainstem-runs-registry"),
            asyncio.create_task(self._beat(), name="mainstem-runs-heartbeat"),
        ]
        async with asyncio.timeout(limits.RUN_WRITE_S):
            await self._ready.wait()
        _current.append(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the runs of this process, so that their readers learn of it."""
        self._stopping = True
        if self in _current:
            _current.remove(self)
        await asyncio.gather(*self._beginning.values(), return_exceptions=True)
        executing = list(self._executions.values())
        for _, execution, _ in executing:
            execution.end("failed", "The server is stopping.")
        await asyncio.gather(*(task for _, _, task in executing), return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run with an ASGI app: pass it to FastAPI or Starlette as `lifespan=`. An embedded log is opened, too."""
        async with AsyncExitStack() as stack:
            if self._app is not None:
                await stack.enter_async_context(self._app.lifespan(app))
            await stack.enter_async_context(self)
            yield

    # Starting, finding, stopping

    async def start(
        self,
        source: Source,
        *,
        id: str | None = None,
        stream: str | None = None,
        format: Format = "plain",
        tag: str = "",
        close: bool = True,
        ttl_s: int | None = limits.RUN_TTL_S,
    ) -> Run:
        """Start a run, unless one with this id is active or its stream is closed already: then return that one.

        `source` is an async iterator of text, JSON values or models, or a callable that returns one and is called only
        if the run is new. `id` is the path of the stream by default, and the stream gets a path of its own if none is
        given. With `close=False` the stream stays open, for the next run.
        """
        if id is None and stream is None:
            id = uuid.uuid4().hex
        stream = stream or f"{self.prefix}/{id}"
        run_id = id or stream
        try:
            if not run_id.isprintable() or len(run_id.encode()) > limits.RUN_ID_BYTES_MAX:
                raise BadArgument(
                    f"the id of a run must be printable, and at most {limits.RUN_ID_BYTES_MAX} bytes long"
                )
            if self._stopping or not self._tasks:
                raise BadArgument("these runs are not open: use `async with Runs(...)`, or their lifespan")
            active = self.registry.active.get(run_id)
            if active is not None:
                await discard(source)
                await self._create_stream(active)
                return Run(self, active)
            if len(self._executions) >= limits.RUNS_MAX:
                raise TooManyRuns(f"this process has {limits.RUNS_MAX} runs already")
            record = RunRecord(
                id=run_id,
                stream=stream,
                token=uuid.uuid4().hex,
                format=format,
                closes=close,
                tag=tag,
                ttl_s=ttl_s,
                started_at=format_seconds(time.time()),
                worker=self._worker,
            )
            begun = asyncio.create_task(self._begin(record, source), name=f"mainstem-run-start {run_id}")
            self._beginning[record.token] = begun
            begun.add_done_callback(partial(self._note_start, record))
            run = await asyncio.shield(begun)  # the request that starts a run may be cancelled; the run goes on
        except asyncio.CancelledError:
            raise
        except BaseException:
            await discard(source)
            raise
        if not run.new:
            await discard(source)
        return run

    def find(self, id: str) -> Run | None:
        """Return the run with this id that is active or has ended last; None if no process remembers one."""
        record = self.registry.find(id)
        return None if record is None else Run(self, record)

    def all(self) -> list[Run]:
        """Return the runs of all processes that are active or have ended lately, the oldest first."""
        return [Run(self, record) for record in self.registry.list_runs()]

    async def resume(self, id: str) -> Run | None:
        """Return the run with this id, even if it has ended so long ago that only its stream is left; or None."""
        found = self.find(id)
        if found is not None:
            return found
        for stream in dict.fromkeys([id, f"{self.prefix}/{id}"]):
            try:
                info = await self.streams.head(stream)
            except (NotFound, StreamGone, BadArgument):
                continue
            if info.closed:
                return Run(self, RunRecord(id=id, stream=stream, token="", status="finished"))
        return None

    async def stop(self, id: str, reason: str = "") -> Status:
        """Stop a run. Return once the stop is durable; a run that has ended already stays as it is.

        Raises `RunNotFound` if there is no such run.
        """
        record = self.registry.find(id)
        if record is None:
            raise RunNotFound(f"there is no run {id!r}")
        if record.status == "running":
            await self._note(Stopped(record.id, record.token, reason[: limits.RUN_ID_BYTES_MAX]))
            return "stopping"
        return record.status

    async def wait_for_change(self) -> None:
        """Wait until any run has changed."""
        await self._changed.wait()

    # Executing

    async def _begin(self, record: RunRecord, source: Source) -> Run:
        winner = await self._claim(record)
        if winner.token != record.token:
            await self._create_stream(winner)
            return Run(self, winner)
        if not await self._open_stream(record):
            return Run(self, record)
        execution = Execution(self.streams, record, source, self._describe_error)
        task = asyncio.create_task(self._execute(record, execution), name=f"mainstem-run {record.id}")
        self._executions[record.token] = (record, execution, task)
        return Run(self, record, new=True)

    def _note_start(self, record: RunRecord, begun: "asyncio.Task[Run]") -> None:
        del self._beginning[record.token]
        if not begun.cancelled() and (error := begun.exception()) is not None:
            logger.warning("the run %s could not be started: %s", record.id, error)

    async def _claim(self, record: RunRecord) -> RunRecord:
        """Note the start of a run, and return the run that has the id now: this one, or one that started before it."""
        claim: asyncio.Future[RunRecord] = asyncio.get_running_loop().create_future()
        self._claims[record.token] = claim
        try:
            await self._note(Started(record))
            async with asyncio.timeout(limits.RUN_WRITE_S):
                return await claim
        finally:
            del self._claims[record.token]

    async def ensure_stream(self, run: Run) -> None:
        """Return once the stream of a run exists: another process may have started it a moment ago."""
        if run.active:
            await self._create_stream(run.record)

    async def _create_stream(self, record: RunRecord) -> StreamInfo:
        try:
            return await self.streams.create(record.stream, JSON, ttl_s=record.ttl_s)
        except StreamExists:
            return await self.streams.head(record.stream)

    async def _open_stream(self, record: RunRecord) -> bool:
        """Create the stream of a new run. Return False if an earlier run with this stream has closed it."""
        try:
            info = await self._create_stream(record)
        except BaseException:
            await self._note(Ended(record.id, record.token, "failed", "its stream could not be created"))
            raise
        if info.closed:
            await self._note(Ended(record.id, record.token, "finished"))
            return False
        if record.closes and not info.created and int(info.next_offset.rpartition("_")[2]):
            await self._note(Ended(record.id, record.token, "failed", "its stream has data already"))
            raise StreamInUse(f"the stream {record.stream!r} has data already, and no run writes it")
        return True

    async def _execute(self, record: RunRecord, execution: Execution) -> None:
        try:
            current = self.registry.active.get(record.id)
            if current is not None and current.status == "stopping":  # stopped before it began
                execution.end("stopped", current.reason)
            outcome, reason = await execution.run()
            if outcome == "lost":
                await self._end_lost(record, reason)
            else:
                await self._note(Ended(record.id, record.token, outcome, reason))
        except ClientError as error:
            logger.error("the end of the run %s could not be noted: %s", record.id, error)
        finally:
            del self._executions[record.token]

    async def _end_lost(self, record: RunRecord, reason: str = "") -> None:
        """End a run whose process was lost. The next epoch of its producer keeps that process from writing more."""
        message = last_message(record.format, "lost", reason)
        try:
            await append(
                self.streams,
                record.stream,
                b"[%b]" % encode_piece(message),
                (record.token, 1, 0),
                close=record.closes,
            )
        except (StreamClosed, StaleEpoch, NotFound, StreamGone) as error:
            logger.info("the stream of the lost run %s has ended already: %s", record.id, error)
        await self._note(Ended(record.id, record.token, "lost", reason))

    # The registry

    async def _create_registry(self) -> None:
        try:
            await self.streams.create(self._registry_path, JSON, retention=f"max-bytes={limits.RUN_REGISTRY_BYTES}")
        except StreamExists:
            logger.debug("the registry of runs exists with another configuration")

    async def _note(self, entry: Entry) -> None:
        await self.streams.append_json(self._registry_path, encode_entry(entry))

    async def _follow_registry(self) -> None:
        offset = BEGINNING
        while True:
            try:
                async for batch in self.streams.follow(self._registry_path, offset):
                    offset = batch.offset
                    self._apply(batch)
                    if batch.up_to_date:
                        self._ready.set()
                raise BadArgument(f"the stream {self._registry_path}, which lists all runs, was closed: delete it")
            except ClientError as error:
                logger.warning("the registry of runs is not readable at the moment: %s", error)
                if not error.retryable:
                    offset = BEGINNING
                await asyncio.sleep(1)
                try:
                    await self._create_registry()
                except ClientError as failure:
                    logger.warning("the registry of runs could not be created: %s", failure)

    def _apply(self, batch: Batch) -> None:
        now_s = asyncio.get_running_loop().time()
        for message in msgspec.json.decode(batch.data, type=list[msgspec.Raw]):
            entry = decode_entry(bytes(message))
            if entry is None:
                continue
            self.registry.apply(entry, now_s)
            if isinstance(entry, Started):
                claim = self._claims.get(entry.run.token)
                winner = self.registry.active.get(entry.run.id)
                if claim is not None and not claim.done() and winner is not None:
                    claim.set_result(winner)
            elif isinstance(entry, Stopped) and entry.token in self._executions:
                self._executions[entry.token][1].end("stopped", entry.reason)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _beat(self) -> None:
        """Say that this process is alive, end the runs of processes that are not, and those of silent sources."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                runs = tuple(record for record, _, _ in self._executions.values())
                await self._note(Heartbeat(self._worker, runs))
                for record in [*self.registry.find_lost(self._worker), *self._find_abandoned()]:
                    await self._end_lost(record)
            except ClientError as error:
                logger.warning("the heartbeat of the runs of this process failed: %s", error)
            except Exception:
                logger.exception("the heartbeat of the runs of this process failed")
            silent_s = loop.time() - limits.RUN_SILENCE_S
            for _, execution, _ in self._executions.values():
                if execution.active_s < silent_s:
                    execution.end("failed", "The source of the run was silent for too long.")
            await asyncio.sleep(limits.RUN_HEARTBEAT_S)

    def _find_abandoned(self) -> list[RunRecord]:
        """Return the runs of this process that it does not execute, because their start failed halfway."""
        own = {*self._executions, *self._beginning}
        return [run for run in self.registry.active.values() if run.worker == self._worker and run.token not in own]


async def discard(source: Source) -> None:
    """Close a source that no run reads. A callable was not called."""
    if not callable(source):
        await close_source(source)


_current: list[Runs] = []


async def durable(
    source: Source,
    *,
    stream: str | None = None,
    id: str | None = None,
    runs: Runs | None = None,
    format: Format = "plain",
    tag: str = "",
    close: bool = True,
    ttl_s: int | None = limits.RUN_TTL_S,
) -> Run:
    """Start a run with the `Runs` that are open in this process. See `Runs.start` for the arguments."""
    if runs is None:
        if len(_current) != 1:
            found = "none is" if not _current else f"{len(_current)} are"
            raise BadArgument(f"durable needs one `Runs` that is open in this process, and {found}: pass runs=")
        runs = _current[0]
    return await runs.start(source, id=id, stream=stream, format=format, tag=tag, close=close, ttl_s=ttl_s)
