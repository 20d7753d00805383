"""Files of an import, cut into tasks and batches as Spark does it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstem import limits
from mainstem.pipeline.lake.import_source import Format, ImportSource, SourceFile
from mainstem.pipeline.lake.local_files import BATCH_ROWS, infer_schema, read_tasks
from mainstem.pipeline.lake.spark_types import SparkNeeded, describe_schema


def describe(path: Path) -> SourceFile:
    return SourceFile(str(path), path.stat().st_size, path.stat().st_mtime_ns)


def read(path: Path, format_: Format, schema: str | None = None, **target: str) -> list[list[pa.RecordBatch]]:
    source = ImportSource(str(path), format_)
    return [list(batches) for batches in read_tasks(source, schema, describe(path), target)]


def test_a_line_belongs_to_the_split_in_which_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "IMPORT_SPLIT_BYTES", 10)
    monkeypatch.setattr(limits, "IMPORT_READ_BYTES", 3)  # CRLF is cut in two
    file = tmp_path / "a.ndjson"
    file.write_bytes(b"12345678\r\n" + b"one\n" + b"a line of more than two splits\n" + b"last")
    found = [[row.as_py() for batch in task for row in batch.column("value")] for task in read(file, "ndjson")]
    assert found == [[b"12345678", b"one"], [b"a line of more than two splits"], [], [], [b"last"]]


def test_batches_are_full_except_for_the_last(tmp_path):
    pq.write_table(pa.table({"n": list(range(BATCH_ROWS + 10))}), tmp_path / "a.parquet", row_group_size=30_000)
    schema = describe_schema(pa.schema([("n", pa.int64())]))
    (batches,) = read(tmp_path / "a.parquet", "parquet", schema)
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, 10]
    assert batches[1].column("n").to_pylist() == list(range(BATCH_ROWS, BATCH_ROWS + 10))


@pytest.mark.parametrize("line", ['{"s":1}', '{"s":{}}', "[1]", "{", '"s"'])
def test_a_field_that_is_not_text_is_left_to_spark(tmp_path, line):
    (tmp_path / "a.ndjson").write_text(line)
    with pytest.raises(SparkNeeded):
        read(tmp_path / "a.ndjson", "ndjson", streamColumn="s")


def test_parquet_that_spark_reads_differently_is_left_to_spark(tmp_path):
    for name, table in {
        "duration": pa.table({"x": pa.array([1], pa.duration("us"))}),
        "nanoseconds": pa.table({"x": pa.array([1], pa.timestamp("ns"))}),
        "same": pa.table({"x": [1], "X": [2]}),
    }.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        source = ImportSource(str(tmp_path / f"{name}.parquet"), "parquet")
        with pytest.raises(SparkNeeded):
            infer_schema(source, [describe(tmp_path / f"{name}.parquet")])
    (tmp_path / "shop=a").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "shop=a" / "a.parquet")
    with pytest.raises(SparkNeeded, match="directories"):
        infer_schema(ImportSource(str(tmp_path), "parquet"), [describe(tmp_path / "shop=a" / "a.parquet")])


def test_a_parquet_column_of_another_type_or_case_is_left_to_spark(tmp_path):
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    for field in (("n", pa.int64()), ("N", pa.int32())):
        with pytest.raises(SparkNeeded):
            read(tmp_path / "a.parquet", "parquet", describe_schema(pa.schema([field])))
