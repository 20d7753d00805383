"""`mainstem pipeline archive`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.archive import ArchiveSpec


@click.command()
@spec_options(ArchiveSpec)
@job_options(changes=True)
def archive(spec: ArchiveSpec, runner: Runner) -> None:
    """Copy the log into the Delta TABLE, each row exactly once.

    TABLE is a directory, or a URI that Spark's workers and this machine can both reach. The table records how far it
    has come, so run the same command again to continue.
    """
    if spec.as_of is not None and runner.every_s is not None:
        raise click.UsageError(
            "--as-of and --every exclude each other: an archive as of an id is complete in one round"
        )
    runner.run(spec.make_job())
