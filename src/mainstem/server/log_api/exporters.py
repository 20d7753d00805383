"""What encodes the pages: worker processes for the embedded store, a thread for the other stores."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from mainstem import limits
from mainstem.errors import RETRY_AFTER, MainstemError, Overloaded, Unavailable, error_class
from mainstem.freed_memory import keep_freed_memory
from mainstem.log.records import CommittedId, TopicId
from mainstem.log.store import SqliteStore, Store
from mainstem.metrics.catalogue import Metrics
from mainstem.server.log_api.formats import ARROW, NDJSON
from mainstem.server.log_api.pacing import Pacing
from mainstem.server.log_api.pages import EncodedPage, LogPages, encode
from mainstem.server.log_api.pipes import PipeReader, open_pipe
from mainstem.server.log_api.selection import Selection
from mainstem.server.log_api.worker import LENGTH, PageRequest, decode_reply, encode_message

# A process group of its own: Ctrl-C goes to the server, which then ends its workers. A session of its own would be too
# much: Linux divides the processor among sessions first, and priorities count only within a session.
FORMATS = {ARROW: "arrow", NDJSON: "ndjson"}
PROGRAM = "import os; os.setpgrp(); from mainstem.server.log_api.worker import main; main()"


class PageRefused(Exception):
    """The worker has refused the request, and can take the next one."""

    def __init__(self, error: MainstemError) -> None:
        self.error = error


class Exporters:
    """Encodes a limited number of pages at once; a limited number of further requests may wait."""

    def __init__(self, store: Store, metrics: Metrics | None = None) -> None:
        self.store = store
        self._metrics = metrics or Metrics()
        self._turns = asyncio.Semaphore(limits.LOG_EXPORTERS)
        self._pacing = Pacing(store.head)
        self._waiting = 0
        self._idle: list[Worker] = []
        self._pages = LogPages(store)
        self._encoding = ThreadPoolExecutor(1, "mainstem-export")

    async def page(self, selection: Selection, format_: str) -> EncodedPage:
        if self._waiting >= limits.LOG_READS_WAITING_MAX:
            raise Overloaded(f"{self._waiting} readers of the log are waiting already", headers=RETRY_AFTER)
        head = self.store.head
        self._waiting += 1
        try:
            async with self._turns:
                if wait_s := self._pacing.measure_wait():
                    await asyncio.sleep(wait_s)
                began_s = time.perf_counter()
                if isinstance(self.store, SqliteStore):
                    # The worker reads the database only. A page from further back leaves the newest records where they
                    # are: folding them for every page would be work that commits wait for.
                    await self.store.fold(CommittedId(min(selection.until, head)))
                    page = await self._by_worker(self.store, PageRequest(selection, head, format_))
                else:
                    page = await self._here(selection, head, format_)
                took_s = time.perf_counter() - began_s
                self._count(page, FORMATS[format_], took_s)
                self._pacing.note_page(took_s, self.store.head)
                return page
        finally:
            self._waiting -= 1

    async def find_topics(self, selection: Selection) -> Collection[TopicId] | None:
        """Return the topics with the rows of a selection; None if these are too many, or all."""
        return await self._pages.find_topics(selection)

    def _count(self, page: EncodedPage, format_: str, seconds: float) -> None:
        self._metrics.export_pages.of(format_).add()
        self._metrics.export_rows.of(format_).add(page.rows)
        self._metrics.export_bytes.of(format_).add(len(page.body))
        self._metrics.export_seconds.of().observe(seconds)

    async def _here(self, selection: Selection, head: int, format_: str) -> EncodedPage:
        found = await self._pages.find(selection, head)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._encoding, encode, found, selection, self._pages.resume_points, format_)

    async def _by_worker(self, store: SqliteStore, request: PageRequest) -> EncodedPage:
        keep_freed_memory()
        worker = self._idle.pop() if self._idle else await Worker.start(str(store.directory))
        worker.stay()
        try:
            page = await worker.page(request)
        except PageRefused as refusal:
            self._keep(worker)
            raise refusal.error from None
        except BaseException:  # even when this reader was cancelled: half a page is left in the pipe
            worker.end()
            raise
        self._keep(worker)
        return page

    def _keep(self, worker: "Worker") -> None:
        self._idle.append(worker)
        worker.end_after(limits.LOG_EXPORTER_IDLE_S, lambda: self._idle.remove(worker))

    async def stop(self) -> None:
        for worker in self._idle:
            worker.end()
            await worker.process.wait()
        self._idle.clear()
        self._encoding.shutdown(wait=False)


class Worker:
    """One process, see worker.py. It encodes one page at a time."""

    def __init__(self, process: Process, replies: PipeReader) -> None:
        self.process = process
        self._replies = replies
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, directory: str) -> "Worker":
        command = [sys.executable, "-c", PROGRAM, directory, str(os.getpid())]
        reads, writes = open_pipe()
        replies = PipeReader(reads)
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=writes)
        except BaseException:
            replies.close()
            raise
        finally:
            os.close(writes)
        return cls(process, replies)

    async def page(self, request: PageRequest) -> EncodedPage:
        stdin = self.process.stdin
        assert stdin is not None
        body = encode_message(request)
        try:
            stdin.write(LENGTH.pack(len(body)) + body)
            await stdin.drain()
            (size,) = LENGTH.unpack(await self._replies.read(LENGTH.size))
            reply = decode_reply(await self._replies.read(size))
            page = await self._replies.read(reply.body_bytes)
        except (OSError, EOFError, RuntimeError) as error:  # uvloop raises the last one if the pipe is closed already
            raise Unavailable("the process that reads the log has ended; try again", headers=RETRY_AFTER) from error
        if reply.error:
            raise PageRefused(error_class(reply.error)(reply.detail))
        return EncodedPage(page, reply.next, reply.rows, reply.position)

    def stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def end_after(self, seconds: float, forget: Callable[[], None]) -> None:
        def end() -> None:
            forget()
            self.end()

        self._timer = asyncio.get_running_loop().call_later(seconds, end)

    def end(self) -> None:
        self.stay()
        self._replies.close()
        if self.process.returncode is None:
            self.process.kill()
