"""Converts the rows of jobs that work per target to Arrow batches, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

TARGET_COLUMNS = [("kind", pa.string()), ("name", pa.string()), ("read_seq", pa.int64())]
"""The fields of a `Target`."""


def to_batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def iter_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of Arrow batches as tuples, in the order of their columns."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
