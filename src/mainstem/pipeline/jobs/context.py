"""The interface of a job: it receives a server, Spark, a checkpoint and a progress display, and returns a summary."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from mainstem import limits
from mainstem.errors import ServerUnreachable
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.spark.java import find_java
from mainstem.pipeline.spark.master import choose_master
from mainstem.pipeline.spark.session import session
from mainstem.pipeline.start_checks import SLOW_LOG, Caller, check_caller, check_client_id, read_caller

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from mainstem.pipeline.log_reader import Head

POLL_S = 0.25


class Progress(Protocol):
    """Shows the progress of a round."""

    def show(self, *, rows: int, committed_id: int, head: int, phase: str = "") -> None:
        """Show the rows of this round so far, the committed id that it has reached, and the head of the log."""


class NoProgress:
    """Shows nothing."""

    def show(self, *, rows: int, committed_id: int, head: int, phase: str = "") -> None:
        pass


class Summary(msgspec.Struct, kw_only=True):
    """What one round has done. Each job adds its own fields, and the command prints all of them."""

    job: str
    rows: int = 0
    committed_id: int = 0
    """The committed id up to which the log was read."""
    lag: int = 0
    """How many ids the log has grown since then."""
    seconds: float = 0.0
    faults: int = 0
    """If above 0, the command exits with 1."""


class JobContext:
    """What a job works with: the server, Spark, and a directory that outlives restarts."""

    def __init__(
        self,
        server: ServerOptions,
        checkpoint: Path,
        *,
        master: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        on_wait: Callable[[str], None] | None = None,
        verbose: bool = False,
        patient: bool = True,
    ) -> None:
        """Call `on_wait` with a message for people: when a request has to wait for the server, and for other news.

        Unless it is `patient`, a job fails at once if the server does not answer its first request. Later it waits.
        """
        self.server = server
        self.checkpoint = checkpoint
        self.master = master
        self.dry_run = dry_run
        self.progress: Progress = progress or NoProgress()
        self.details: dict[str, Any] = {}
        """What else the current round wants to report to the server."""
        self.verbose = verbose
        self._on_wait = on_wait
        self._patient = patient
        self._caller: Caller | None = None
        self._head = 0

    @cached_property
    def spark(self) -> "SparkSession":
        """The session, started on first use: a job that finds nothing to do does not wait for it."""
        work = self.checkpoint / "spark"
        return session("mainstem pipeline", self.master, work=work, short_lived=True, verbose=self.verbose)

    @property
    def options(self) -> dict[str, str]:
        """The options of `format("mainstem")` for this server."""
        token = {"token": self.server.token, "tokenFile": self.server.token_file}
        given = {name: value for name, value in token.items() if value is not None}
        address = {"url": self.server.url, "streamPrefix": self.server.stream_prefix}
        return {**address, "retrySeconds": f"{self.server.retry_s:.0f}", **given}

    def notify(self, text: str) -> None:
        """Show a message to people, if anybody wants to see it."""
        if self._on_wait is not None:
            self._on_wait(text)

    def open_client(self) -> HttpClient:
        return HttpClient(self.server, self._on_wait)

    def read_head(self) -> int:
        """Ask the server for the committed id of its newest record."""
        with self.open_client() as client:
            self._head = int(client.get_json("/v1/log/head")["head"])
        return self._head

    def identify_head(self) -> "Head":
        """Ask the server for the head and the identity of its log."""
        from mainstem.pipeline.log_reader import read_head

        with self.open_client() as client:
            head = read_head(client)
        self._head = head.head
        return head

    def check(self) -> None:
        """Check, without Spark, that the server answers, that the token suffices, and that the versions fit.

        Warn once if the server has no Arrow, since reading is slower then.
        """
        choose_master(self.master)
        if self._caller is None:
            caller = self._read_caller()
            check_caller(caller, self.server.url)
            if not caller.arrow:
                self.notify(f"{self.server.url} was installed without Arrow: {SLOW_LOG}")
            self._caller = caller
            self.check_writable(str(self.checkpoint))
        self.read_head()

    def check_java(self) -> None:
        """Check that Spark will find Java, before a job creates anything."""
        if not choose_master(self.master).startswith("sc://"):
            find_java()

    def check_client_id(self, client_id: str | None) -> None:
        """Check that the token may submit events as this client."""
        assert self._caller is not None
        check_client_id(self._caller, self.server.url, client_id)

    def check_writable(self, location: str) -> None:
        """Check that the job can write there, unless it is a dry run."""
        from mainstem.pipeline.write_checks import check_writable

        if not self.dry_run:
            check_writable(location, max(limits.WRITE_CHECK_S_MAX, self.server.retry_s if self._patient else 0))

    def _read_caller(self) -> Caller:
        if self._patient:
            with self.open_client() as client:
                return read_caller(client)
        try:
            with HttpClient(replace(self.server, retry_s=0), timeout_s=limits.FIRST_REPLY_S_MAX) as client:
                return read_caller(client)
        except ServerUnreachable as error:
            if error.facts["refused"] is None:
                raise ServerUnreachable(f"{self.server.url} does not answer: {error.facts['reason']}") from None
        with self.open_client() as client:  # the server is there, and asks for another attempt
            return read_caller(client)

    def await_query(self, query: "StreamingQuery") -> int:
        """Wait for an availableNow query and show its progress. Return the number of rows that it has read."""
        seen: set[tuple[str, int]] = set()
        rows = 0
        while True:
            active = query.isActive
            for report in query.recentProgress:
                name = (str(report["runId"]), int(report["batchId"]))
                if name not in seen:
                    seen.add(name)
                    rows += sum(int(source["numInputRows"]) for source in report["sources"])  # Connect has no total
                    reached = max((_committed_id(source["endOffset"]) for source in report["sources"]), default=0)
                    self.progress.show(rows=rows, committed_id=reached, head=max(reached, self._head))
            if not active:
                query.awaitTermination()  # raises the error of a failed query
                return rows
            time.sleep(POLL_S)


def _committed_id(offset: Any) -> int:
    """Return the committed id of a source's offset, which a progress report holds as an object or as JSON text."""
    if isinstance(offset, str):
        offset = msgspec.json.decode(offset)
    return int(offset.get("committed_id", 0)) if isinstance(offset, dict) else 0


@contextmanager
def poll_while(update: Callable[[], None]) -> Iterator[None]:
    """Call `update` a few times per second, in a thread, while the block runs."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(POLL_S):
            update()

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        yield
    finally:
        ended.set()
        poller.join()


Job = Callable[[JobContext], Summary]
"""Runs one round: from the checkpoint to the current head of the log."""
