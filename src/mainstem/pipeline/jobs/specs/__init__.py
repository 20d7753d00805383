"""The options of each kind of job, in one place: the command line and the file of the service are both made from them.

A spec imports its job only when it makes one, so that `--help` and the check of a file need no Spark.
"""

from importlib import import_module
from typing import Final

from mainstem.pipeline.jobs.specs.options import JobSpec

KINDS: Final = {
    "archive": "ArchiveSpec",
    "snapshot": "SnapshotSpec",
    "retain": "RetainSpec",
    "audit": "AuditSpec",
    "rollup": "RollupSpec",
    "import": "ImportSpec",
    "export": "ExportSpec",
}
"""The kinds of jobs, and the classes of their options in the modules of the same names."""


def find_spec(kind: str) -> type[JobSpec]:
    """Return the options of a kind of job."""
    module = "import_" if kind == "import" else kind
    found: type[JobSpec] = getattr(import_module(f"{__name__}.{module}"), KINDS[kind])
    return found
