"""`mainstem pipeline audit`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.audit import AuditSpec


@click.command()
@spec_options(AuditSpec)
@job_options()
def audit(spec: AuditSpec, runner: Runner) -> None:
    """Check the whole log: ids, hashes, offsets and producers, and an archive if you name one.

    The exit code is 1 if the audit finds any fault.
    """
    runner.run(spec.make_job())
