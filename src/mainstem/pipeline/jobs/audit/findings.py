"""Findings on disk: each task writes its own Parquet files, and a repeated task overwrites them."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem import limits

SCHEMAS = {
    "events": pa.schema([("id", pa.string()), ("committed_id", pa.int64()), ("digest", pa.string())]),
    "runs": pa.schema(
        [
            ("stream", pa.string()),
            ("read_seq", pa.int64()),
            ("first_id", pa.int64()),
            ("first_start", pa.int64()),
            ("last_id", pa.int64()),
            ("last_end", pa.int64()),
            ("messages", pa.int64()),
        ]
    ),
    "appends": pa.schema(
        [("stream", pa.string()), ("read_seq", pa.int64()), ("producer_id", pa.string()), ("appends", pa.int64())]
    ),
    "faults": pa.schema(
        [("rule", pa.string()), ("committed_id", pa.int64()), ("name", pa.string()), ("detail", pa.string())]
    ),
    "index_events": pa.schema([("id", pa.string()), ("committed_id", pa.int64()), ("digest", pa.string())]),
    "index_streams": pa.schema(
        [
            ("path", pa.string()),
            ("topic", pa.int64()),
            ("read_seq", pa.int64()),
            ("begins", pa.int64()),
            ("tail", pa.int64()),
            ("messages", pa.int64()),
            ("last_id", pa.int64()),
            ("trimmed", pa.bool_()),
            ("closed", pa.bool_()),
            ("deleted", pa.bool_()),
        ]
    ),
    "index_producers": pa.schema(
        [
            ("path", pa.string()),
            ("id", pa.string()),
            ("topic", pa.int64()),
            ("epoch", pa.int64()),
            ("last_seq", pa.int64()),
        ]
    ),
}
"""The findings of the scan (events, runs, appends, faults), and copies of the server's indexes (index_*)."""


class FindingsWriter:
    """Writes one file of one kind. The file gets its name when it is closed."""

    def __init__(self, folder: Path, kind: str, name: str) -> None:
        self.schema = SCHEMAS[kind]
        self._path = folder / kind / f"{name}.parquet"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Spark ignores names that begin with a dot.
        self._new = self._path.with_name(f".{self._path.name}.{uuid.uuid4().hex}")
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> FindingsWriter:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        if error is not None:
            self._new.unlink(missing_ok=True)
        elif self._writer is not None:
            os.replace(self._new, self._path)
        else:
            self._path.unlink(missing_ok=True)  # left by an attempt that did not finish

    def add(self, *row: Any) -> None:
        self._rows.append(row)
        if len(self._rows) >= limits.AUDIT_BUFFER_ROWS:
            self._flush()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._open().write_batch(batch)

    def _flush(self) -> None:
        if self._rows:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*self._rows, strict=True), self.schema, strict=True)
            ]
            self._open().write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))
            self._rows.clear()

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._new, self.schema, use_dictionary=False, write_statistics=False)
        return self._writer
