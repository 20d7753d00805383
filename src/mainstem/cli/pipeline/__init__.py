"""`mainstem pipeline <job>`: one file a job, each imported only when it is used."""

import click

from mainstem.cli.lazy import Lazy, LazyGroup

PACKAGE = "mainstem.cli.pipeline"
JOBS = {
    "archive": Lazy(f"{PACKAGE}.archive", "archive", "Copy the log into a Delta table, exactly once."),
    "snapshot": Lazy(f"{PACKAGE}.snapshot", "snapshot", "Fold partitions and JSON streams into their states."),
    "retain": Lazy(f"{PACKAGE}.retain", "retain", "Prune history by policy."),
    "audit": Lazy(f"{PACKAGE}.audit", "audit", "Check ids, hashes, offsets, producers and the archive."),
    "rollup": Lazy(f"{PACKAGE}.rollup", "rollup", "Count by time windows, and write the counts into a stream."),
    "import": Lazy(f"{PACKAGE}.import_", "import_", "Bring Parquet, Delta, NDJSON or CSV into the log."),
    "export": Lazy(f"{PACKAGE}.export", "export", "Write the log out as Parquet, Delta, NDJSON or CSV."),
    "prepare": Lazy(f"{PACKAGE}.prepare", "prepare", "Make Spark start twice as fast from now on."),
}


@click.group(cls=LazyGroup, lazy=JOBS)
def pipeline() -> None:
    """Jobs over the whole log, on Spark."""
