"""Runs a job once, or again and again until a signal stops it."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from mainstem.errors import JobRunning, MainstemError
from mainstem.pipeline.jobs.context import Job, JobContext, Summary
from mainstem.pipeline.jobs.reporter import JobReporter
from mainstem.pipeline.process_locks import hold_lock
from mainstem.pipeline.spark.errors import explain


def run_once(job: Job, context: JobContext, reporter: JobReporter | None = None) -> Summary:
    """Run one round, and report it unless it is a dry run or cannot begin.

    Failures of Spark are raised as errors of `mainstem.errors`.
    """
    context.check()
    if context.dry_run:
        return _run(job, context)
    with hold_lock(
        context.checkpoint / ".lock",
        lambda holder: JobRunning(f"{holder} runs a job with the checkpoint {context.checkpoint}"),
    ):
        return _run_and_report(job, context, reporter)


def _run_and_report(job: Job, context: JobContext, reporter: JobReporter | None) -> Summary:
    if reporter is None:
        return _run(job, context)
    begun_us, begun_s = time.time_ns() // 1000, time.monotonic()
    context.details = {}
    try:
        summary = _run(job, context)
    except Exception as error:
        reporter.report_failure(begun_us, time.monotonic() - begun_s, error)
        raise
    reporter.report(begun_us, summary, context.details)
    return summary


def _run(job: Job, context: JobContext) -> Summary:
    """Run one round and time it."""
    begun_s = time.monotonic()
    try:
        summary = job(context)
    except MainstemError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # it names the file of this machine
        raise explain(error) from error
    summary.seconds = round(time.monotonic() - begun_s, 3)
    summary.lag = max(0, context.read_head() - summary.committed_id)
    return summary


def run_every(
    job: Job,
    context: JobContext,
    every_s: float,
    show: Callable[[Summary], None],
    reporter: JobReporter | None = None,
) -> None:
    """Run round after round until SIGINT or SIGTERM, and call `show` after each.

    The current round is finished first, unless a second signal arrives.
    """
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])  # a second signal does not wait for the round

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not stop.is_set():
            show(run_once(job, context, reporter))
            stop.wait(every_s)
        if reporter is not None:
            reporter.flush()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
