"""The log in Spark: a data source, jobs over the whole log, and a session that is configured for them."""

from typing import TYPE_CHECKING, Any

from mainstem.pipeline.spark.session import session

if TYPE_CHECKING:
    from mainstem.pipeline.lake.archive_table import read_archive
    from mainstem.pipeline.spark.progress_printer import show_progress
    from mainstem.pipeline.spark.query_reporter import report_queries

__all__ = ["read_archive", "report_queries", "session", "show_progress"]


def __getattr__(name: str) -> Any:
    """Import what needs Arrow and Spark on first use, so that the command line shows its help without them."""
    if name == "read_archive":
        from mainstem.pipeline.lake.archive_table import read_archive

        return read_archive
    if name == "report_queries":
        from mainstem.pipeline.spark.query_reporter import report_queries

        return report_queries
    if name == "show_progress":
        from mainstem.pipeline.spark.progress_printer import show_progress

        return show_progress
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
