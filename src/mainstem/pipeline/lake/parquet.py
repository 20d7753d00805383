"""Rows of the log as Parquet files under names that are never used again."""

from __future__ import annotations

import posixpath
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem import limits
from mainstem.pipeline.durable_files import fsync
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake.copies import Extent, WrittenFile

REPEATED = ("stream", "producer_id", "client_id", "content_type", "partitions.list.element")
"""Columns in which few values come again and again; for the others a dictionary is a waste of time."""
GROWING = {
    "committed_id": "DELTA_BINARY_PACKED",
    "position": "DELTA_BINARY_PACKED",
    "committed_at": "DELTA_BINARY_PACKED",
    "offset": "DELTA_BYTE_ARRAY",
}


class ParquetFile:
    """One file, written a row group at a time."""

    def __init__(self, location: str, folder: str, schema: pa.Schema, partition: dict[str, str] | None = None) -> None:
        self._fs, root = open_location(location)
        self.path = posixpath.join(folder, f"part-{uuid.uuid4()}.zstd.parquet")
        self._whole = posixpath.join(root, self.path)
        self._fs.create_dir(posixpath.dirname(self._whole), recursive=True)
        self._partition = partition or {}
        names = set(schema.names)
        encodings = {name: encoding for name, encoding in GROWING.items() if name in names}
        self._writer = pq.ParquetWriter(
            self._whole,
            schema,
            filesystem=self._fs,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in REPEATED if name.partition(".")[0] in names],
            column_encoding=encodings,
        )
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._extent = Extent()

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None:
        """Rows in the schema of the file, with their ids and times, which may not be columns of it."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        self._extent.add(ids, times)
        if self._waiting_rows >= limits.PARQUET_GROUP_ROWS or self._waiting_bytes >= limits.PARQUET_GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        self._flush()
        self._writer.close()
        if self._fs.type_name == "local":
            fsync(self._whole)
        return self._extent.describe(self.path, self._fs.get_file_info(self._whole).size, self._partition)

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


class PartitionedFiles:
    """The rows of one piece, a file for each date and kind that is among them."""

    def __init__(self, location: str, schema: pa.Schema) -> None:
        self._location = location
        self._schema = schema
        self._files: dict[tuple[str, str], ParquetFile] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        dates, kinds = batch.column("committed_at").cast(pa.date32()), batch.column("kind")
        for date in pc.unique(dates).to_pylist():
            for kind in pc.unique(kinds).to_pylist():
                rows = batch.filter(pc.and_(pc.equal(dates, pa.scalar(date, pa.date32())), pc.equal(kinds, kind)))
                if rows.num_rows:
                    self._write(str(date), kind, rows)

    def _write(self, date: str, kind: str, rows: pa.RecordBatch) -> None:
        file = self._files.get((date, kind))
        if file is None:
            partition = {"date": date, "kind": kind}
            file = ParquetFile(self._location, f"date={date}/kind={kind}", self._schema, partition)
            self._files[date, kind] = file
        shaped = pa.RecordBatch.from_arrays([rows.column(name) for name in self._schema.names], schema=self._schema)
        file.write(shaped, rows.column("committed_id"), rows.column("committed_at"))

    def close(self) -> list[WrittenFile]:
        return [file.close() for file in self._files.values()]
