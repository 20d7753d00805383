"""The command line: one file per noun. Each is imported only when it is used."""

import sys
from importlib.util import find_spec
from typing import Any

import click

import mainstem
from mainstem.cli.failures import exit_with
from mainstem.cli.lazy import Lazy, LazyGroup
from mainstem.cli.options import verbose

COMMANDS = {
    "serve": Lazy("mainstem.cli.serve", "serve", "Run the server until it gets SIGINT or SIGTERM."),
    "stream": Lazy("mainstem.cli.stream", "stream", "Create, append to, read, tail, list, fork and delete streams."),
    "sync": Lazy("mainstem.cli.sync", "sync", "Submit events to partitions, and read them."),
    "log": Lazy("mainstem.cli.log", "log", "Read the log that holds all streams and partitions."),
    "subscription": Lazy("mainstem.cli.subscription", "subscription", "Manage subscriptions, and process their wakes."),
    "context": Lazy("mainstem.cli.context", "context", "Save servers under names, and choose one."),
    "token": Lazy("mainstem.cli.token", "token", "Create secrets and tokens for --jwt-secret-file."),
    "bench": Lazy("mainstem.cli.bench", "bench", "Put a small load on a server, and measure it."),
    "backup": Lazy("mainstem.cli.backup", "backup", "Copy the store of a running server, and verify the copy."),
    "restore": Lazy("mainstem.cli.restore", "restore", "Restore a verified backup into a data directory."),
    "repair": Lazy("mainstem.cli.repair", "repair", "Repair a damaged store, with records from a backup or archive."),
    "check": Lazy("mainstem.cli.check", "check", "Check a store or a backup for faults."),
}
if find_spec("mainstem.cli.pipeline") is not None:
    COMMANDS["pipeline"] = Lazy("mainstem.cli.pipeline", "pipeline", "Run Spark jobs over the log.")


class Root(LazyGroup):
    """The top-level group. It turns every error of a command into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()  # reports a full disk while an error can still be printed
            return value
        except (click.ClickException, click.exceptions.Exit, click.Abort, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 (exit_with explains it and ends the process)
            exit_with(ctx, error)


@click.group(cls=Root, lazy=COMMANDS)
@click.version_option(mainstem.__version__, prog_name="mainstem")
@verbose
def main() -> None:
    """One ordered, durable commit log, served as Durable Streams over HTTP and as a sync protocol over WebSocket.

    Commands that talk to a server use http://127.0.0.1:4437 unless --url, MAINSTEM_URL or a context names another one.
    """
