"""`mainstem pipeline status`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from mainstem.cli.options import common
from mainstem.cli.output import format_duration, show_fact, write_json, write_line, write_table
from mainstem.cli.pipeline.run import FILE, find_server

COLUMNS = ("job", "kind", "state", "last round", "took", "rows", "lag", "faults", "next run")
RIGHT = ("took", "rows", "lag", "faults")


@click.command()
@click.argument("file", type=FILE, default="pipeline.toml")
@common
def status(file: Path, as_json: bool) -> None:
    """Show the jobs of FILE: their last rounds, lag, faults, errors and next runs.

    The service of `mainstem pipeline run` need not be running. FILE is pipeline.toml by default.
    """
    from mainstem.pipeline.service.file import load_definition
    from mainstem.pipeline.service.status import JobStatus, read_status

    definition = load_definition(file)
    found = read_status(definition, find_server(definition))
    if as_json:
        write_json(found.as_facts())
        return

    def show(job: JobStatus) -> list[str]:
        return [
            job.name,
            job.job,
            job.state,
            "never" if job.last_round is None else f"{_distance(job.last_round)} ago",
            "-" if job.seconds is None else f"{show_fact('seconds', job.seconds)} s",
            *(show_fact(name, getattr(job, name)) for name in ("rows", "lag", "faults")),
            _show_next(job.next_run),
        ]

    write_table(COLUMNS, (show(job) for job in found.jobs), right=RIGHT)
    for job in found.jobs:
        if job.error is not None:
            times = "" if job.failures < 2 else f", {job.failures} times in a row"
            write_line(f"{job.name} failed{times}: {job.error}")
    write_line("")
    write_line(f"The service runs as process {found.pid}." if found.running else "The service is not running.")
    if found.head is None:
        write_line(f"{found.url} did not answer: the lag is that of the last round.")


def _seconds_until(time: str) -> float:
    return (datetime.fromisoformat(time) - datetime.now(UTC)).total_seconds()


def _distance(time: str) -> str:
    return format_duration(abs(_seconds_until(time)))


def _show_next(time: str) -> str:
    return f"in {_distance(time)}" if _seconds_until(time) > 0 else "now"
