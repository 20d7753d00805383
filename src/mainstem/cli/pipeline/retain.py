"""`mainstem pipeline retain`."""

from pathlib import Path

import click

from mainstem.cli.pipeline.runner import Runner, job_options


@click.command()
@click.argument("policies", type=click.Path(dir_okay=False, path_type=Path))
@job_options(changes=True)
def retain(policies: Path, runner: Runner) -> None:
    """Prune the history that the policies in the TOML file POLICIES do not keep.

    The server erases an event once every partition of it has pruned it. It remembers the event's id, so that it still
    recognises a late retry. --dry-run shows what would be pruned.
    """
    from mainstem.pipeline.jobs.retain.job import RetainOptions, make_retain
    from mainstem.pipeline.jobs.retain.policies import load_policies

    runner.run(make_retain(RetainOptions(load_policies(policies))))
