"""`mainstem pipeline audit`."""

import click

from mainstem import limits
from mainstem.cli.pipeline.runner import Runner, job_options


@click.command()
@click.option(
    "--archive", metavar="TABLE", help="Also compare this Delta table of `mainstem pipeline archive` with the log."
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1),
    default=1.0,
    metavar="SHARE",
    help="Check the hashes of only this share of the events, 0 to 1.  [default: 1]",
)
@click.option(
    "--clock-skew",
    "skew_s",
    type=click.FloatRange(min=0),
    default=1.0,
    metavar="SECONDS",
    help="How far the server's clock may have stepped back.  [default: 1]",
)
@click.option(
    "--examples",
    type=click.IntRange(0, limits.AUDIT_EXAMPLES_MAX),
    default=limits.AUDIT_EXAMPLES,
    metavar="N",
    help=f"How many faults of each kind to show.  [default: {limits.AUDIT_EXAMPLES}]",
)
@job_options()
def audit(archive: str | None, sample: float, skew_s: float, examples: int, runner: Runner) -> None:
    """Check the whole log: ids, hashes, offsets and producers, and an archive if you name one.

    The exit code is 1 if the audit finds any fault.
    """
    from mainstem.pipeline.jobs.audit.job import AuditOptions, make_audit

    runner.run(make_audit(AuditOptions(archive, sample, skew_s, examples)))
