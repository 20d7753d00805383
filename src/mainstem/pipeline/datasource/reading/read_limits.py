"""How much a micro-batch reads: at most some rows or bytes, and at least some rows unless that takes too long."""

from __future__ import annotations

import time

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

from mainstem.pipeline.datasource.options import ReadOptions
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.log_reader import read_bound


class ReadLimits:
    """Spark knows one limit per source, but the options may set several. All of them hold if Spark passes one; only
    `Trigger.Once` passes none (`ReadAllAvailable`)."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._last_batch_s: float | None = None
        self._too_few: tuple[int, int] | None = None
        """The last range that held too few rows, so that it is not measured again."""

    def choose_default(self) -> ReadLimit:
        options = self._options
        if options.rows_max is not None:
            return ReadMaxRows(options.rows_max)
        if options.bytes_max is not None:
            return ReadMaxBytes(options.bytes_max)
        return ReadAllAvailable() if options.rows_min is None else ReadMinRows(options.rows_min)

    def choose_end(self, client: HttpClient, after: int, until: int, limit: ReadLimit, *, may_wait: bool) -> int:
        """Return where the next batch ends: `until` at most, and `after` if it should wait for more rows."""
        if until <= after:
            return after
        if not isinstance(limit, ReadAllAvailable):
            if may_wait and self._should_wait(client, after, until):
                return after
            if self._options.rows_max is not None or self._options.bytes_max is not None:
                until = read_bound(client, after, until, self._options.rows_max, self._options.bytes_max)
        self._last_batch_s = time.monotonic()
        return until

    def _should_wait(self, client: HttpClient, after: int, until: int) -> bool:
        """Return whether there are too few rows. The first batch never waits, and no batch longer than allowed."""
        rows_min = self._options.rows_min
        if rows_min is None or self._last_batch_s is None:
            return False
        if time.monotonic() - self._last_batch_s >= self._options.delay_s_max:
            return False
        if self._too_few != (after, until):
            query = [("after", str(after)), ("until", str(until)), ("rows", str(rows_min))]
            found = client.get_json("/v1/log/bounds", query)
            if int(found["rows"]) >= rows_min or int(found["until"]) < until:
                return False
            self._too_few = after, until
        return True
