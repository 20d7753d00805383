"""Runs: sources of text or events that are written to streams, detached from the requests that started them.

A run belongs to one process. All processes with the same registry, one stream of the server, know of all runs, can stop
each of them, and end those of a process that was lost.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, get_args

from mainstem import limits
from mainstem.access import OWN_STREAMS
from mainstem.ai.endings import Endings
from mainstem.ai.errors import RunNotFound, RunsNotOpen, StreamInUse, TooManyRuns
from mainstem.ai.execution import Execution, Source, check_source, discard
from mainstem.ai.formats import DEFAULT_REASONS, Format
from mainstem.ai.heartbeats import Heartbeats
from mainstem.ai.pieces import BufferedBytes
from mainstem.ai.registry import Ended, Entry, Registry, RunRecord, Status, Stopped
from mainstem.ai.shared_registry import SharedRegistry
from mainstem.ai.turns import Turns
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import (
    BadArgument,
    ClientError,
    NotFound,
    StreamExists,
)
from mainstem.client.core.protocol import BEGINNING
from mainstem.client.core.results import Batch, StreamInfo
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.json_mode import JSON
from mainstem.timestamps import format_seconds

logger = logging.getLogger(__name__)

REGISTRY: Final = OWN_STREAMS + "runs"


class App(Protocol):
    """An embedded app, as `create_app` returns it."""

    @property
    def exclusive(self) -> bool: ...

    def client(self) -> AsyncStreams: ...

    def lifespan(self, app: object = None) -> Any: ...


class Run:
    """A run, wherever it runs. `status`, `reason` and `active` follow what this process learns about it."""

    def __init__(self, runs: "Runs", record: RunRecord, *, new: bool = False) -> None:
        self._runs = runs
        self._record = record
        self.new = new
        """Whether this call has started the run."""

    def __repr__(self) -> str:
        return f"<Run {self.id!r}, {self.status}>"

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
        """Wait until the run has ended, and return how. Raises `RunsNotOpen` if the `Runs` are closed before."""
        while (run := self._current).active:
            await self._runs.shared.wait_for_end(run)
        return run.status

    async def stop(self, reason: str = "") -> Status:
        """Stop the run, wherever it runs. Return once the stop is durable; `wait` returns once the run has ended.

        A run that has ended already stays as it is, even if another run has its id now.
        """
        if self.status == "running":
            await self._runs.shared.note(Stopped(self.id, self._record.token, reason[: limits.RUN_REASON_CHARS_MAX]))
            return "stopping"
        return self.status

    def follow(self, offset: str = BEGINNING) -> AsyncGenerator[Batch, None]:
        """Yield what the run has written and what it writes, until its stream is closed."""
        return self._runs.streams.follow(self.stream, offset)

    @property
    def _current(self) -> RunRecord:
        self._record = self._runs.shared.registry.look_up(self._record)
        return self._record


class Runs:
    """The runs of an app: `async with Runs(AsyncStreams(url)) as runs:`, or `FastAPI(lifespan=Runs(log).lifespan)`.

    `server` is a client of a server, or an embedded app from `create_app`, whose lifespan `Runs.lifespan` runs too.
    `prefix` begins the paths of streams that are not chosen by the caller. `drain_s` is how long runs may go on when
    the process stops; then they are ended. `describe_error` returns what readers learn about an exception of a source;
    by default they learn only that there was one, and it is logged.
    """

    def __init__(
        self,
        server: AsyncStreams | App,
        *,
        prefix: str = "runs",
        registry: str = REGISTRY,
        drain_s: float = 0,
        describe_error: Callable[[Exception], str] = lambda error: DEFAULT_REASONS["failed"],
    ) -> None:
        self._app = None if isinstance(server, AsyncStreams) else server
        self.streams: AsyncStreams = server if isinstance(server, AsyncStreams) else server.client()
        self.prefix = prefix
        self._worker = uuid.uuid4().hex
        self.shared = SharedRegistry(self.streams, registry, Registry(self._worker), self._take_entry)
        self._is_embedded = self._app is not None and self._app.exclusive
        self._endings = Endings(self.streams, self.shared, _workers if self._is_embedded else None)
        self._heartbeats = Heartbeats(self.shared)
        self._drain_s = drain_s
        self._describe_error = describe_error
        self._buffered = BufferedBytes()
        self._turns = Turns(limits.RUN_APPENDS_MAX)
        self._executions: dict[str, tuple[Execution, asyncio.Task[None]]] = {}
        self._beginning: dict[str, asyncio.Task[Run]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    # Its own life

    async def __aenter__(self) -> Self:
        if self._tasks:
            raise BadArgument("these runs were opened before: create new ones")
        _workers.add(self._worker)
        try:
            await self.shared.__aenter__()
        except BaseException:
            _workers.discard(self._worker)
            raise
        self._tasks = [
            asyncio.create_task(self._beat(), name="mainstem-runs-heartbeat"),
            asyncio.create_task(self._endings.run(), name="mainstem-runs-ends"),
        ]
        _current.append(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the runs of this process finish for `drain_s`, and end the others, so that their readers learn of it."""
        self._stopping = True
        _current.remove(self)
        try:
            await self._end_own(asyncio.get_running_loop().time() + self._drain_s)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.shared.__aexit__(kind, error, trace)
            _workers.discard(self._worker)

    async def _end_own(self, drained_s: float) -> None:
        """Let the runs of this process finish until a time of the event loop's clock, and then end the others."""
        closed_s = drained_s + limits.RUN_CLOSE_S
        await finish(self._beginning.values(), closed_s)
        if self._drain_s and self._executions:
            timeout_s = max(0.0, drained_s - asyncio.get_running_loop().time())
            await asyncio.wait([task for _, task in self._executions.values()], timeout=timeout_s)
        executing = list(self._executions.values())
        for execution, _ in executing:
            execution.end("failed", "The server is stopping.")
        await finish((task for _, task in executing), closed_s)
        try:
            async with asyncio.timeout_at(closed_s):
                await self.shared.refresh()  # so that the runs have their last status
        except (ClientError, TimeoutError) as failure:
            logger.warning("the ends of runs could not be read at the end: %s", failure or "the log did not answer")

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
            check_source(source)
            check_name("id", run_id)
            check_name("tag", tag)
            check_format(format)
            check_ttl(ttl_s)
            self._check_stream(stream)
            self._require_open()
            active = self.shared.registry.active.get(run_id)
            if active is None and len(self._executions) + len(self._beginning) >= limits.RUNS_MAX:
                raise TooManyRuns(f"this process has {limits.RUNS_MAX} runs already")
        except ClientError:
            await discard(source)
            raise
        if active is not None:
            await discard(source)
            await self.create_stream(active.stream, active.ttl_s)
            return Run(self, active)
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
            embedded=self._is_embedded,
        )
        self._endings.held.add(record.token)
        begun = asyncio.create_task(self._begin(record, source), name=f"mainstem-run-start {run_id}")
        self._beginning[record.token] = begun
        begun.add_done_callback(partial(self._note_start, record))
        return await asyncio.shield(begun)  # the request that starts a run may be cancelled; the run goes on

    async def find(self, id: str) -> Run | None:
        """Return the run with this id that is active or has ended last, in any process; None if none remembers one."""
        self._require_open()
        registry = self.shared.registry
        if id not in registry.active:
            await self.shared.refresh()
        record = registry.find(id)
        return None if record is None else Run(self, record)

    async def all(self) -> list[Run]:
        """Return the runs of all processes that are active or have ended lately, the oldest first."""
        self._require_open()
        await self.shared.refresh()
        return [Run(self, record) for record in self.shared.registry.list_runs()]

    async def resume(self, id: str) -> Run | None:
        """Return the run with this id, even if it has ended so long ago that only its stream is left; or None."""
        found = await self.find(id)
        if found is not None:
            return found
        for stream in dict.fromkeys([id, f"{self.prefix}/{id}"]):
            try:
                info = await self.streams.head(stream)
            except (NotFound, BadArgument):
                continue
            if info.closed and is_json(info.content_type):
                outcome, reason = await self._endings.read_outcome(stream)
                return Run(self, RunRecord(id=id, stream=stream, token="", status=outcome, reason=reason))
        return None

    async def stop(self, id: str, reason: str = "") -> Status:
        """Stop a run. Return once the stop is durable; a run that has ended already stays as it is.

        Raises `RunNotFound` if there is no such run.
        """
        run = await self.find(id)
        if run is None:
            raise RunNotFound(f"there is no run {id!r}")
        return await run.stop(reason)

    def _require_open(self) -> None:
        if self._stopping or not self._tasks:
            raise RunsNotOpen("these runs are not open")

    # Executing

    def _check_stream(self, path: str) -> None:
        """Raise `BadArgument` unless this is the path of a stream that runs may have."""
        self.streams.operations.requests.target(path)
        if path == self.shared.path or path.startswith(OWN_STREAMS):
            raise BadArgument(f"the stream {path!r} is not for runs: choose a path outside {OWN_STREAMS}")

    async def _begin(self, record: RunRecord, source: Source) -> Run:
        """Start a run if it is the first with its id, and close its source if it is not."""
        is_new = False
        try:
            winner = await self.shared.claim(record)
            if winner.token != record.token:
                self._endings.held.discard(record.token)
                await self.create_stream(winner.stream, winner.ttl_s)
                return Run(self, winner)
            is_new = await self._open_stream(record)
        finally:
            if not is_new:
                await discard(source)
        if is_new:
            execution = Execution(self.streams, record, source, self._describe_error, self._buffered, self._turns)
            task = asyncio.create_task(self._execute(record, execution), name=f"mainstem-run {record.id}")
            self._executions[record.token] = (execution, task)
            task.add_done_callback(lambda _: self._executions.pop(record.token))
        return Run(self, record, new=is_new)

    def _note_start(self, record: RunRecord, begun: "asyncio.Task[Run]") -> None:
        del self._beginning[record.token]
        if begun.cancelled() or begun.exception() is not None:
            self._endings.held.discard(record.token)  # if it has started nevertheless, it is ended
            error = "it was cancelled" if begun.cancelled() else begun.exception()
            logger.warning("the run %s could not be started: %s", record.id, error)

    async def ensure_stream(self, run: Run) -> None:
        """Return once the stream of a run exists: another process may have started it a moment ago."""
        if run.active:
            await self.create_stream(run.stream, run.record.ttl_s)

    async def create_stream(self, path: str, ttl_s: int | None) -> StreamInfo:
        """Create a stream for runs. If it exists, its configuration stays as it is."""
        try:
            return await self.streams.create(path, JSON, ttl_s=ttl_s)
        except StreamExists:
            return await self.streams.head(path)

    async def _open_stream(self, record: RunRecord) -> bool:
        """Create the stream of a new run. Return False if an earlier run with this stream has closed it."""
        try:
            rival = self.shared.registry.find_rival(record)
            if rival is not None:
                raise StreamInUse(f"the run {rival.id!r} writes the stream {record.stream!r} at the moment")
            info = await self.create_stream(record.stream, record.ttl_s)
            if not is_json(info.content_type):
                raise StreamInUse(f"the stream {record.stream!r} has the content type {info.content_type}, not {JSON}")
            if info.closed:
                outcome, reason = await self._endings.read_outcome(record.stream)
                await self.shared.note(Ended(record.id, record.token, outcome, reason))
                return False
            if record.closes and not info.created and not (await self.streams.read_tail(record.stream, 1)).empty:
                raise StreamInUse(f"the stream {record.stream!r} has data already, and no run writes it")
        except Exception:
            await self.shared.note(Ended(record.id, record.token, "failed", "its stream could not be used"))
            raise
        return True

    async def _execute(self, record: RunRecord, execution: Execution) -> None:
        try:
            current = self.shared.registry.active.get(record.id)
            if current is not None and current.status == "stopping":  # stopped before it began
                execution.end("stopped", current.reason)
            outcome, reason = await execution.run()
            await self._endings.end(record, outcome, reason)
        except BaseException:
            self._endings.held.discard(record.token)
            raise
        finally:
            await execution.release_source()  # the end is noted by then, but the run still counts as one of RUNS_MAX

    # Other processes

    def _take_entry(self, entry: Entry) -> None:
        """Do what an entry of the registry asks of this process."""
        if isinstance(entry, Stopped) and entry.token in self._executions:
            self._executions[entry.token][0].end("stopped", entry.reason)
        elif isinstance(entry, Ended):
            self._endings.take(entry)
            if entry.token in self._executions:  # unless it has ended here, another process has declared it lost
                self._executions[entry.token][0].end("lost", entry.reason)

    async def _beat(self) -> None:
        """Say that this process is alive while there are runs, and end its runs whose sources are silent."""
        loop = asyncio.get_running_loop()
        while True:
            next_s = loop.time() + limits.RUN_HEARTBEAT_S
            if self.shared.registry.active:
                await self._heartbeats.send()
            silent_s = loop.time() - limits.RUN_SILENCE_S
            for execution, _ in self._executions.values():
                if execution.active_s < silent_s:
                    execution.end("failed", "The source of the run was silent for too long.")
            await asyncio.sleep(max(0.0, next_s - loop.time()))


async def finish(tasks: Iterable["asyncio.Task[Any]"], until_s: float) -> None:
    """Wait for tasks until a time of the event loop's clock, and cancel those that are late."""
    waiting = list(tasks)
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=max(0.0, until_s - asyncio.get_running_loop().time()))
        for task in late:
            logger.warning("%s is interrupted, because it took too long", task.get_name())
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def check_name(what: str, name: str) -> None:
    """Raise `BadArgument` unless the registry can keep this name: every heartbeat repeats it."""
    if not name.isprintable() or len(name.encode()) > limits.RUN_NAME_BYTES_MAX:
        raise BadArgument(f"the {what} of a run must be printable, and at most {limits.RUN_NAME_BYTES_MAX} bytes long")


def check_format(format: str) -> None:
    if format not in get_args(Format):
        raise BadArgument(f"format is {format!r}; it must be one of: {', '.join(get_args(Format))}")


def check_ttl(ttl_s: int | None) -> None:
    """Raise `BadArgument` for a TTL in which a silent source would lose its stream."""
    if ttl_s is not None and ttl_s < limits.RUN_TTL_S_MIN:
        raise BadArgument(
            f"ttl_s is {ttl_s}; it must be at least {limits.RUN_TTL_S_MIN}: the source may be silent for a while"
        )


_current: list[Runs] = []
_workers: set[str] = set()
"""Those of all `Runs` of this process, from before they are open until they have ended their runs."""


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
    return await (runs or _find_open("durable")).start(
        source, id=id, stream=stream, format=format, tag=tag, close=close, ttl_s=ttl_s
    )


async def resume(id: str, *, runs: Runs | None = None) -> Run | None:
    """Return the run with this id, or None, from the `Runs` that are open in this process. See `Runs.resume`."""
    return await (runs or _find_open("resume")).resume(id)


def _find_open(call: str) -> Runs:
    if len(_current) != 1:
        found = "none is" if not _current else f"{len(_current)} are"
        kind = BadArgument if _current else RunsNotOpen
        raise kind(f"{call} needs one `Runs` that is open in this process, and {found}: pass runs=")
    return _current[0]
