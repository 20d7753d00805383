"""Parquet files with unique names."""

from __future__ import annotations

import posixpath
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem import limits
from mainstem.pipeline.durable_files import fsync
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake.files import FileStats, WrittenFile
from mainstem.pipeline.storage_errors import explain_storage

DICTIONARY_COLUMNS = ("stream", "producer_id", "client_id", "content_type", "partitions.list.element")
"""Columns with few distinct values. For the others, a dictionary only costs time."""
ENCODINGS = {
    "committed_id": "DELTA_BINARY_PACKED",
    "position": "DELTA_BINARY_PACKED",
    "committed_at": "DELTA_BINARY_PACKED",
    "offset": "DELTA_BYTE_ARRAY",
}


class ParquetFileWriter:
    """Writes one Parquet file, a row group at a time."""

    def __init__(self, location: str, folder: str, schema: pa.Schema, partition: dict[str, str] | None = None) -> None:
        self._location = location
        self._fs, root = open_location(location)
        self.path = posixpath.join(folder, f"part-{uuid.uuid4()}.zstd.parquet")
        self._full_path = posixpath.join(root, self.path)
        self._partition = partition or {}
        names = set(schema.names)
        encodings = {name: encoding for name, encoding in ENCODINGS.items() if name in names}
        with explain_storage(location):
            self._fs.create_dir(posixpath.dirname(self._full_path), recursive=True)
            self._writer = pq.ParquetWriter(
                self._full_path,
                schema,
                filesystem=self._fs,
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in DICTIONARY_COLUMNS if name.partition(".")[0] in names],
                column_encoding=encodings,
            )
        self._schema = schema
        self._buffer: list[pa.RecordBatch] = []
        self._buffer_rows = self._buffer_bytes = 0
        self._stats = FileStats()

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None:
        self._buffer.append(batch)
        self._buffer_rows += batch.num_rows
        self._buffer_bytes += batch.nbytes
        self._stats.add(ids, times)
        if self._buffer_rows >= limits.PARQUET_GROUP_ROWS or self._buffer_bytes >= limits.PARQUET_GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        self._flush()
        with explain_storage(self._location):
            self._writer.close()
            if self._fs.type_name == "local":
                fsync(self._full_path)
            size = self._fs.get_file_info(self._full_path).size
        return self._stats.describe(self.path, size, self._partition)

    def _flush(self) -> None:
        if self._buffer:
            table = pa.Table.from_batches(self._buffer, self._schema)
            with explain_storage(self._location):
                self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._buffer, self._buffer_rows, self._buffer_bytes = [], 0, 0


class PartitionedFilesWriter:
    """Writes the rows of one split into a file per date and kind."""

    def __init__(self, location: str, schema: pa.Schema) -> None:
        self._location = location
        self._schema = schema
        self._files: dict[tuple[str, str], ParquetFileWriter] = {}

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
            file = ParquetFileWriter(self._location, f"date={date}/kind={kind}", self._schema, partition)
            self._files[date, kind] = file
        converted = pa.RecordBatch.from_arrays([rows.column(name) for name in self._schema.names], schema=self._schema)
        file.write(converted, rows.column("committed_id"), rows.column("committed_at"))

    def close(self) -> list[WrittenFile]:
        return [file.close() for file in self._files.values()]
