"""How a job runs: what it is given, how it tells of its progress, once or again and again, and how faults are told."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from mainstem import errors, limits
from mainstem.errors import BadOption, JobFailed, MainstemError
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.spark.java import find_java
from mainstem.pipeline.spark.master import choose_master
from mainstem.pipeline.spark.session import NICENESS_SET, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.25
STARVED = "Python worker failed to connect back"


class Progress(Protocol):
    """Who is told how far a round has come."""

    def show(self, *, rows: int, committed_id: int, head: int, phase: str = "") -> None:
        """`rows` done so far in this round, the id reached, and where the log ends."""


class Silence:
    """Progress for whoever does not look."""

    def show(self, *, rows: int, committed_id: int, head: int, phase: str = "") -> None:
        pass


class Summary(msgspec.Struct, kw_only=True):
    """What one round has done. Each job adds its own numbers; all are printed by name."""

    job: str
    rows: int = 0
    committed_id: int = 0
    """Up to where the log was looked at."""
    lag: int = 0
    """How many ids the log has grown beyond that meanwhile."""
    seconds: float = 0.0
    faults: int = 0
    """Above 0, the command exits with 1."""


class Workbench:
    """What a job works with: the server, Spark, and a directory of its own that it finds again after a restart."""

    def __init__(
        self,
        server: ServerOptions,
        checkpoint: Path,
        *,
        master: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.server = server
        self.checkpoint = checkpoint
        self.master = master
        self.dry_run = dry_run
        self.progress: Progress = progress or Silence()
        self.tell = tell
        """Who hears that the server is being waited for."""
        self._head = 0

    @cached_property
    def spark(self) -> "SparkSession":
        """Started when it is first needed: a job that finds nothing to do need not wait for it."""
        return session("mainstem pipeline", self.master, work=self.checkpoint / "spark", short_lived=True)

    @property
    def options(self) -> dict[str, str]:
        """Of `format("mainstem")`, for this server."""
        token = {"token": self.server.token, "tokenFile": self.server.token_file}
        given = {name: value for name, value in token.items() if value is not None}
        place = {"url": self.server.url, "streamPrefix": self.server.stream_prefix}
        return {**place, "retrySeconds": f"{self.server.retry_s:.0f}", **given}

    def open_client(self) -> HttpClient:
        return HttpClient(self.server, self.tell)

    def head(self) -> int:
        with self.open_client() as client:
            self._head = int(client.get_json("/v1/log/head")["head"])
        return self._head

    def check(self) -> None:
        """What can be told before Spark starts: that the server answers, takes the token, and that there is Java."""
        master = choose_master(self.master)
        self.head()
        if not master.startswith("sc://"):
            find_java()

    def follow(self, query: "StreamingQuery") -> int:
        """Wait for a query that ends by itself (availableNow), telling of its progress; how many rows it took."""
        seen: set[tuple[str, int]] = set()
        rows = 0
        while True:
            active = query.isActive
            for report in query.recentProgress:
                name = (str(report["runId"]), int(report["batchId"]))
                if name not in seen:
                    seen.add(name)
                    rows += int(report["numInputRows"])
                    reached = max((_place(source["endOffset"]) for source in report["sources"]), default=0)
                    self.progress.show(rows=rows, committed_id=reached, head=max(reached, self._head))
            if not active:
                query.awaitTermination()  # it raises what went wrong
                return rows
            time.sleep(POLL_S)


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again, in a thread, while the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_S):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _place(offset: Any) -> int:
    """The committed id in a source's offset as a progress report has it: a document, or its text."""
    if isinstance(offset, str):
        offset = msgspec.json.decode(offset)
    return int(offset.get("committed_id", 0)) if isinstance(offset, dict) else 0


Job = Callable[[Workbench], Summary]
"""One round: from where the checkpoint stands to the end of the log as it is now."""


def run_once(job: Job, bench: Workbench) -> Summary:
    """One round, timed; whatever goes wrong in Spark comes out as one clear error."""
    bench.check()
    begun_s = time.monotonic()
    try:
        summary = job(bench)
    except MainstemError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a file or disk of this machine, and it says which
        raise explain(error) from error
    summary.seconds = round(time.monotonic() - begun_s, 3)
    summary.lag = max(0, bench.head() - summary.committed_id)
    return summary


def run_every(job: Job, bench: Workbench, every_s: float, tell: Callable[[Summary], None]) -> None:
    """Round after round until SIGINT or SIGTERM; a round that has begun is finished, unless the signal comes again."""
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])  # whoever asks again does not want to wait for the round

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not stop.is_set():
            tell(run_once(job, bench))
            stop.wait(every_s)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Spark tells of an error in Python code by its traceback as text, at times within another one.
OURS = re.compile(r"mainstem\.errors\.(\w+): (.+)")


def explain(error: Exception) -> MainstemError:
    """The error of ours within what Spark says; else the first line of what it says that means something."""
    text = str(error)
    found = OURS.findall(text)
    if found:
        name, detail = found[-1]
        type_ = getattr(errors, name, None)
        if isinstance(type_, type) and issubclass(type_, MainstemError):
            return type_(detail.strip().removesuffix(f". {type_.hint}"))
    if STARVED in text:
        return JobFailed(
            "Spark could not start Python within 10 s: other programs take the whole machine. Run the job again when "
            f"it is less busy, or with {NICENESS_SET}=0, so that Spark gives way to nobody"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(error, OSError):  # of delta-rs: causes, one a line
        return JobFailed(" ".join(lines)[: limits.JOB_REASON_CHARS_MAX] or type(error).__name__)
    if type(error).__name__ == "ParseException":  # the only words of SQL that a job takes
        return BadOption(f"Spark does not understand the schema: {lines[0]}")
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # py4j, before what Java says
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        said = " ".join([lines[1].removeprefix(": "), *causes[-1:]])
        return JobFailed(said[: limits.JOB_REASON_CHARS_MAX])
    return JobFailed(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")
