"""The log in Spark: a data source, jobs over the whole log, and a session that is set up for them."""

from typing import TYPE_CHECKING, Any

from mainstem.pipeline.spark.session import session

if TYPE_CHECKING:
    from mainstem.pipeline.lake.archive_table import read_archive

__all__ = ["read_archive", "session"]


def __getattr__(name: str) -> Any:
    """What needs Arrow and Spark is imported when it is used: the command line wants none of them to show its help."""
    if name == "read_archive":
        from mainstem.pipeline.lake.archive_table import read_archive

        return read_archive
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
