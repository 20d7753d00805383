"""`mainstem pipeline run`."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.addresses import find_address
from mainstem.cli.failures import is_verbose, note_request
from mainstem.cli.options import common
from mainstem.cli.output import format_number, write_json, write_line, write_table
from mainstem.cli.pipeline.runner import silence_spark, warn
from mainstem.escaping import escape_text
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.service.definition import Definition, Endpoint
from mainstem.timestamps import format_seconds

if TYPE_CHECKING:
    from mainstem.pipeline.service.service import RoundEnd

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=FILE)
@click.option("--check", is_flag=True, help="Only check the file, and show what it defines.")
@common
def run(file: Path, check: bool, as_json: bool) -> None:
    """Run the jobs of the TOML file FILE at their times, in one Spark, until a signal.

    SIGTERM or SIGINT ends the service after the rounds that run; a second signal ends it at once. Start it again at
    any time: it continues where it stopped.
    """
    from mainstem.pipeline.service.file import load_definition
    from mainstem.pipeline.service.service import Service

    definition = load_definition(file)
    if check:
        _show_definition(definition, as_json)
        return
    server = find_server(definition)
    note_request(click.get_current_context(), server.url, has_token=bool(server.token or server.token_file))

    def show(end: "RoundEnd") -> None:
        if as_json:
            facts = end.as_facts()
            times = {
                "started_at": format_seconds(facts.pop("started_s")),
                "next_run": format_seconds(facts.pop("next_s")),
            }
            write_json(facts | times)
        else:
            write_line(_describe_round(end))
        sys.stdout.flush()

    def announce(endpoint: Endpoint | None, say: Callable[[str], None]) -> None:
        listening = "" if endpoint is None else f"; metrics at http://{endpoint.host}:{endpoint.port}/metrics"
        say(f"{len(definition.jobs)} jobs of {file} against {server.url}{listening}")

    with _silence(not is_verbose(click.get_current_context())) as say:
        Service(definition, server, show=show, warn=say, on_ready=lambda endpoint: announce(endpoint, say)).run()


@contextmanager
def _silence(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Hide what Spark writes, and yield a function that prints a line on standard error.

    When Java is killed, PySpark prints stack traces of its threads. The line about the round says what has happened.
    """
    with silence_spark(quiet):
        if not quiet:
            yield warn
            return
        shown, root = sys.stderr, logging.getLogger()
        level = root.level
        root.setLevel(logging.CRITICAL)

        def say(text: str) -> None:
            print(f"mainstem: {escape_text(text)}", file=shown, flush=True)

        try:
            with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
                yield say
        finally:
            root.setLevel(level)


def find_server(definition: Definition) -> ServerOptions:
    """Return the server of a file, or else that of the environment or the current context."""
    given = definition.server
    address = find_address(given.url, None, None)
    token = None if given.token_file else address.token
    return ServerOptions(address.url, token, given.token_file, given.retry_s, address.stream_prefix)


def _describe_round(end: "RoundEnd") -> str:
    last = end.state.last
    assert last is not None
    next_run = f"next at {format_seconds(end.state.next_s)}"
    head = f"{format_seconds(last.started_s)}  {end.job.name} ({end.job.kind})"
    if last.error is not None:
        again = "" if end.state.failures == 1 else f" ({end.state.failures} times in a row)"
        return f"{head}: failed{again}: {last.error}; {next_run}"
    faults = f", {_count(last.faults, 'fault')}" if last.faults else ""
    return (
        f"{head}: {_count(last.rows, 'row')} in {format_number(last.seconds)} s{faults}, up to id {last.committed_id}, "
        f"lag {format_number(last.lag or 0)}; {next_run}"
    )


def _count(number: int, thing: str) -> str:
    return f"{format_number(number)} {thing}{'' if number == 1 else 's'}"


def _show_definition(definition: Definition, as_json: bool) -> None:
    jobs = [{"name": job.name, "job": job.kind, "schedule": str(job.schedule)} for job in definition.jobs]
    if as_json:
        write_json({"file": str(definition.file), "state_directory": str(definition.state), "jobs": jobs})
        return
    write_table(["job", "kind", "runs"], ([job["name"], job["job"], job["schedule"]] for job in jobs))
    write_line("")
    write_line(f"{definition.file} is valid.")
