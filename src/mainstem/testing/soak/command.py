"""`python -m mainstem.testing.soak`."""

import asyncio
import random
import resource
import shutil
import tempfile
from pathlib import Path

import click
import uvloop

from mainstem.testing.soak.report import judge, write_report
from mainstem.testing.soak.run import Plan, run_soak


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="How long to run.")
@click.option("--seed", type=int, help="Repeat the choices of another run.  [default: a random one]")
@click.option("--idle", type=click.IntRange(min=0), default=10_000, show_default=True, help="Connections that wait.")
@click.option("--busy", type=click.IntRange(min=10), default=1_000, show_default=True, help="Connections that work.")
@click.option("--spark/--no-spark", default=True, show_default=True, help="Archive and prune with Spark meanwhile.")
def soak(minutes: float, seed: int | None, idle: int, busy: int, spark: bool) -> None:
    """Put a server under everything at once, and see whether it grows.

    Clients of both protocols, webhooks, expiry, retention, backups, Spark jobs and restarts; then a flood. Everything
    that clients saw is checked. The exit code is 1 if a promise was broken or the server grew.
    """
    _allow_many_connections()
    plan = Plan(minutes, random.SystemRandom().randrange(10**6) if seed is None else seed, idle, busy, spark)
    directory = Path(tempfile.mkdtemp(prefix="mainstem-soak-"))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run_soak(directory, plan))
    click.echo(write_report(result))
    if judge(result):
        raise SystemExit(f"the data and the histories are in {directory}")
    shutil.rmtree(directory)


def _allow_many_connections() -> None:
    """Raise the limit of open files, which the server inherits."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
