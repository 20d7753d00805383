"""`mainstem pipeline JOB`: one file per job, imported only when it is used."""

import click

from mainstem.cli.lazy import Lazy, LazyGroup

PACKAGE = "mainstem.cli.pipeline"
JOBS = {
    "archive": Lazy(f"{PACKAGE}.archive", "archive", "Copy the log into a Delta table, exactly once."),
    "snapshot": Lazy(f"{PACKAGE}.snapshot", "snapshot", "Fold partitions and JSON streams into snapshots."),
    "retain": Lazy(f"{PACKAGE}.retain", "retain", "Prune history according to policies."),
    "audit": Lazy(f"{PACKAGE}.audit", "audit", "Check ids, hashes, offsets, producers and the archive."),
    "rollup": Lazy(f"{PACKAGE}.rollup", "rollup", "Count messages per time window into a stream."),
    "import": Lazy(f"{PACKAGE}.import_", "import_", "Import Parquet, Delta, NDJSON or CSV into the log."),
    "export": Lazy(f"{PACKAGE}.export", "export", "Export the log as Parquet, Delta, NDJSON or CSV."),
    "run": Lazy(f"{PACKAGE}.run", "run", "Run the jobs of a file at their times, in one Spark."),
    "status": Lazy(f"{PACKAGE}.status", "status", "Show the jobs of a file: last rounds, lag, faults, next runs."),
    "prepare": Lazy(f"{PACKAGE}.prepare", "prepare", "Speed up every later start of Spark."),
}


@click.group(cls=LazyGroup, lazy=JOBS)
def pipeline() -> None:
    """Run jobs over the whole log, on Spark."""
