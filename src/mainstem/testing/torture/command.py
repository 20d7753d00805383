"""`python -m mainstem.testing.torture`: rounds of torture until the time is up."""

import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
import uvloop

from mainstem import limits
from mainstem.testing.history.calls import decode_call
from mainstem.testing.history.checker import Unfinished, check_history
from mainstem.testing.postgres import PostgresProcess
from mainstem.testing.torture.nemesis import Nemesis
from mainstem.testing.torture.report import write_report
from mainstem.testing.torture.rounds import Outcome, run_round

ROUND_KILLS = 100
ROUND_S = 60.0
"""A round ends after this many kills, or this long: its history is checked as a whole, in memory."""


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0), default=1.0, show_default=True, help="How long to run.")
@click.option("--kills", type=click.IntRange(min=1), help="End after this many kills, however long it takes.")
@click.option("--seed", type=int, help="Repeat the choices of another run.  [default: a random one]")
@click.option("--store", type=click.Choice(["sqlite", "postgres"]), default="sqlite", show_default=True)
@click.option("--check", type=click.Path(path_type=Path, exists=True), help="Only check a history that a run has kept.")
def torture(minutes: float, kills: int | None, seed: int | None, store: str, check: Path | None) -> None:
    """Kill, stop and disconnect servers under load, and check everything that clients saw.

    With postgres, two nodes share a database, which is restarted too. The exit code is 1 if a promise was broken.
    """
    if check is not None:
        raise SystemExit(_check_file(check))
    sys.setswitchinterval(limits.THREAD_SWITCH_S)  # threads start servers while the event loop is busy with clients
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    began_s = time.monotonic()
    outcome = Outcome()

    def enough(current: Nemesis | None = None) -> bool:
        if kills is None:
            return time.monotonic() - began_s > minutes * 60
        return outcome.faults["kill"] + (0 if current is None else current.kills) >= kills

    with ExitStack() as stack:
        postgres = None
        if store == "postgres":
            postgres = PostgresProcess()
            stack.callback(postgres.close)
            postgres.start()
        while not enough() and not outcome.violations:
            outcome.add(_run_round(f"{seed} {outcome.rounds}", enough, postgres))
            click.echo(
                f"round {outcome.rounds}: {outcome.faults['kill']:,} kills, {sum(outcome.calls.values()):,} calls"
            )
    click.echo(write_report(outcome, seed, time.monotonic() - began_s))
    raise SystemExit(1 if outcome.violations else 0)


def _run_round(seed: str, enough: Callable[[Nemesis], bool], postgres: PostgresProcess | None) -> Outcome:
    """Run a round in a directory of its own, which is kept only if a promise was broken."""
    directory = Path(tempfile.mkdtemp(prefix="mainstem-torture-"))
    until_s = time.monotonic() + ROUND_S
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(
            run_round(
                directory,
                seed,
                lambda nemesis: enough(nemesis) or nemesis.kills >= ROUND_KILLS or time.monotonic() > until_s,
                postgres,
            )
        )
    if not outcome.violations:
        shutil.rmtree(directory)
    return outcome


def _check_file(file: Path) -> int:
    """Print every violation that a kept history proves, and return the exit code."""
    try:
        with file.open("rb") as lines:
            violations = check_history(map(decode_call, lines))
    except Unfinished as error:
        raise click.ClickException(f"{file} cannot be checked: {error}") from None
    for violation in violations:
        click.echo(violation.explain())
    click.echo(f"{len(violations)} violations")
    return 1 if violations else 0
