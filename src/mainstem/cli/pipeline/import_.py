"""`mainstem pipeline import`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options
from mainstem.cli.pipeline.spec_options import spec_options
from mainstem.pipeline.jobs.specs.import_ import ImportSpec


@click.command("import")
@spec_options(ImportSpec)
@job_options(changes=True)
def import_(spec: ImportSpec, runner: Runner) -> None:
    """Import SOURCE into streams or partitions, each row exactly once.

    SOURCE is a file, a directory, a glob, or a Delta table. Run the same command again to continue after a
    kill, or to import new files. Nothing is imported twice.
    """
    runner.run(spec.make_job())
