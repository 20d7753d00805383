"""Copies an index of the server into a Parquet file, page by page."""

from __future__ import annotations

from urllib.parse import unquote

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.jobs.audit.findings import FindingsWriter
from mainstem.pipeline.jobs.audit.scan import ScanOptions
from mainstem.pipeline.log_pages import LogPages


def copy_index(scan: ScanOptions, of: str) -> int:
    """Copy an index, and return the number of its entries."""
    rows = 0
    after = ""
    with FindingsWriter(scan.folder, f"index_{of}", of) as found, HttpClient(scan.server) as client:
        pages = LogPages(client)
        while True:
            query = [("of", of), ("limit", str(limits.INDEX_PAGE_MAX)), ("after", after)]
            batches, headers = pages.read_index(query, found.schema)
            for batch in batches:
                rows += batch.num_rows
                found.add_batch(batch)
            following = headers.get("Log-Next")
            if following is None:
                return rows
            after = unquote(following)
