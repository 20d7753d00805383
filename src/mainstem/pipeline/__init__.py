"""The log in Spark: a data source, jobs over the whole log, and a session that is configured for them."""

from typing import TYPE_CHECKING, Any

from mainstem.pipeline.spark.session import session

if TYPE_CHECKING:
    from mainstem.pipeline.lake.archive_table import read_archive

__all__ = ["read_archive", "session"]


def __getattr__(name: str) -> Any:
    """Import what needs Arrow and Spark on first use, so that the command line shows its help without them."""
    if name == "read_archive":
        from mainstem.pipeline.lake.archive_table import read_archive

        return read_archive
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
