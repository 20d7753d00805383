"""What all jobs share on the command line: the server, how often to run, and what to show."""

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from mainstem import limits
from mainstem.cli.addresses import Address
from mainstem.cli.failures import ExitCode, is_verbose, note_request
from mainstem.cli.options import server
from mainstem.cli.pipeline.summaries import write_summary
from mainstem.cli.progress import is_visible
from mainstem.escaping import escape_text
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import Job, JobContext, NoProgress, Progress, Summary
from mainstem.pipeline.jobs.reporter import JobReporter
from mainstem.pipeline.jobs.runner import run_every, run_once


@dataclass(frozen=True)
class Runner:
    """Runs a job with the options of its command."""

    server: ServerOptions
    name: str
    checkpoint: Path
    master: str | None
    every_s: float | None
    dry_run: bool
    as_json: bool
    patient: bool = False
    """Whether --retry asks for waiting, even for the first reply of the server."""

    def run(self, job: Job) -> None:
        """Run one round, or with --every round after round. Exit with 1 if a single round has found faults."""
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        quiet = not is_verbose(click.get_current_context())
        with silence_spark(quiet), show_progress(self.name, shown=is_visible(self.as_json)) as progress:
            context = JobContext(
                self.server,
                self.checkpoint,
                master=self.master,
                dry_run=self.dry_run,
                progress=progress,
                on_wait=warn,
                verbose=not quiet,
                patient=self.patient,
            )
            reporter = JobReporter(self.server, self.name, self.checkpoint, warn)
            if self.every_s is not None:
                run_every(job, context, self.every_s, self.show, reporter)
                return
            summary = run_once(job, context, reporter)
        self.show(summary)
        if summary.faults:
            raise click.exceptions.Exit(ExitCode.FAILED)

    def show(self, summary: Summary) -> None:
        """Print the summary of a round."""
        write_summary(msgspec.to_builtins(summary), self.as_json)
        sys.stdout.flush()


def warn(text: str) -> None:
    """Print a line on standard error. It appears above the progress bar, which has replaced `sys.stderr`."""
    print(f"mainstem: {escape_text(text)}", file=sys.stderr, flush=True)


def job_options(*, changes: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of every job to a command, which receives a `runner`. With `changes`, add --dry-run too."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--token-file", metavar="FILE", help="Read the token from this file, again for every request.")
        @click.option("--master", metavar="MASTER", help="Spark's master, or sc://host:port.  [default: local[*]]")
        @click.option(
            "--checkpoint",
            type=click.Path(file_okay=False, path_type=Path),
            help="Where the job records its progress.  [default: ./mainstem-pipeline/JOB]",
        )
        @click.option("--once", is_flag=True, help="Run one round up to the head of the log, then exit; the default.")
        @click.option(
            "--every",
            "every_s",
            type=click.FloatRange(min=0.1),
            metavar="SECONDS",
            help="Run again and again, with this pause.",
        )
        @click.option(
            "--retry",
            "retry_s",
            type=click.IntRange(0, int(limits.PIPELINE_RETRY_S_MAX)),
            metavar="SECONDS",
            help="How long to wait for a server that does not answer.  "
            f"[default: {limits.PIPELINE_RETRY_S:.0f}, but not for the first reply]",
        )
        @functools.wraps(function)
        def wrapped(
            *args: Any,
            address: Address,
            token_file: str | None,
            master: str | None,
            checkpoint: Path | None,
            once: bool,
            every_s: float | None,
            retry_s: int | None,
            as_json: bool,
            dry_run: bool = False,
            **options: Any,
        ) -> Any:
            if once and every_s is not None:
                raise click.UsageError("--once and --every exclude each other; give one of them")
            name = click.get_current_context().info_name or function.__name__
            runner = Runner(
                ServerOptions(
                    address.url,
                    None if token_file else address.token,
                    token_file,
                    limits.PIPELINE_RETRY_S if retry_s is None else retry_s,
                    address.stream_prefix,
                ),
                name,
                checkpoint=checkpoint or Path("mainstem-pipeline") / name,
                master=master,
                every_s=every_s,
                dry_run=dry_run,
                as_json=as_json,
                patient=retry_s is not None,
            )
            note_request(click.get_current_context(), address.url, has_token=bool(token_file or address.token))
            return function(*args, runner=runner, **options)

        if changes:
            wrapped = click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")(
                wrapped
            )
        return server(wrapped)

    return decorate


@contextmanager
def silence_spark(quiet: bool) -> Iterator[None]:
    """Hide what Spark and its Java write to standard error, unless --verbose asks for it.

    The Java process inherits the file descriptor, so the descriptor is redirected. This program keeps a copy of it.
    """
    if not quiet:
        yield
        return
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    kept = os.dup(2)
    devnull = os.open(os.devnull, os.O_WRONLY)
    before = sys.stderr
    os.dup2(devnull, 2)
    os.close(devnull)
    sys.stderr = os.fdopen(os.dup(kept), "w", buffering=1)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr.close()
        sys.stderr = before
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def show_progress(name: str, *, shown: bool) -> Iterator[Progress]:
    """Draw a progress bar on standard error while the block runs, if `shown`."""
    if not shown:
        yield NoProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    class Shown:
        def show(self, *, rows: int, committed_id: int, head: int, phase: str = "") -> None:
            elapsed = bars.tasks[task].elapsed or 0
            rate = f"{rows / elapsed:,.0f}" if elapsed else "-"
            label = f"{name} {phase}".strip()
            facts = (
                f"{rows:,} rows  {rate} rows/s  id {committed_id:,} of {head:,}  lag {max(0, head - committed_id):,}"
            )
            bars.update(task, completed=committed_id, total=max(head, 1), description=label, facts=facts)

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}"), TimeElapsedColumn()]
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        task = bars.add_task(name, total=None, facts="")
        yield Shown()
