"""`mainstem pipeline audit`."""

import click

from mainstem import limits
from mainstem.cli.pipeline.runner import Runner, job_options


@click.command()
@click.option("--archive", metavar="TABLE", help="Compare the Delta table of `mainstem pipeline archive` too.")
@click.option(
    "--sample",
    type=click.FloatRange(0, 1),
    default=1.0,
    metavar="SHARE",
    help="Compute the hashes of this share of the events only.  [default: 1]",
)
@click.option(
    "--clock-skew",
    "skew_s",
    type=click.FloatRange(min=0),
    default=1.0,
    metavar="SECONDS",
    help="By so much the server's clock may have gone back.  [default: 1]",
)
@click.option(
    "--examples",
    type=click.IntRange(0, limits.AUDIT_EXAMPLES_MAX),
    default=limits.AUDIT_EXAMPLES,
    metavar="N",
    help=f"Show so many faults of each kind.  [default: {limits.AUDIT_EXAMPLES}]",
)
@job_options()
def audit(archive: str | None, sample: float, skew_s: float, examples: int, runner: Runner) -> None:
    """Check the whole log: ids, hashes, offsets, producers, and the archive if one is named.

    The exit code is 1 if there is any fault.
    """
    from mainstem.pipeline.jobs.audit.job import AuditOptions, make_audit

    runner.run(make_audit(AuditOptions(archive, sample, skew_s, examples)))
