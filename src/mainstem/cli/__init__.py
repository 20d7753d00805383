"""The command line: one file a noun. Each is imported only when it is used."""

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
    "stream": Lazy("mainstem.cli.stream", "stream", "Create, append, read, tail, list, fork and delete streams."),
    "sync": Lazy("mainstem.cli.sync", "sync", "Submit events to partitions, and read them."),
    "log": Lazy("mainstem.cli.log", "log", "Read the one log behind all streams and partitions."),
    "subscription": Lazy(
        "mainstem.cli.subscription", "subscription", "Manage subscriptions, and work off their wakes."
    ),
    "context": Lazy("mainstem.cli.context", "context", "Name servers, and choose the one to speak to."),
    "token": Lazy("mainstem.cli.token", "token", "Make secrets and tokens for a server with --jwt-secret-file."),
    "bench": Lazy("mainstem.cli.bench", "bench", "Put a small load on a server, and measure it."),
    "backup": Lazy("mainstem.cli.backup", "backup", "Copy the store while its server runs, and verify the copy."),
    "restore": Lazy("mainstem.cli.restore", "restore", "Make a verified backup the store of a data directory."),
    "check": Lazy("mainstem.cli.check", "check", "Look for faults in a store or in a backup."),
}
if find_spec("mainstem.cli.pipeline") is not None:
    COMMANDS["pipeline"] = Lazy("mainstem.cli.pipeline", "pipeline", "Run the Spark pipeline over the log.")


class Root(LazyGroup):
    """Every command ends here, however it ends."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()  # or a full disk would be noticed only when it is too late to say so
            return value
        except (click.ClickException, click.exceptions.Exit, click.Abort, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 (it is explained, and the process ends)
            exit_with(ctx, error)


@click.group(cls=Root, lazy=COMMANDS)
@click.version_option(mainstem.__version__, prog_name="mainstem")
@verbose
def main() -> None:
    """One global, ordered, durable commit log, served as Durable Streams over HTTP."""
