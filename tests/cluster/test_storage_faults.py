"""Object stores that fail, are slow, or refuse: one sentence, nothing lost, nothing twice."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from mainstem import limits
from mainstem.errors import StorageFailed
from mainstem.pipeline.datasource.staging_directory import Manifest, StagingDirectory
from mainstem.pipeline.lake.delta import LogTable, load_table
from mainstem.pipeline.lake.files import WrittenFile
from mainstem.pipeline.lake.parquet_files import ParquetFileWriter
from mainstem.pipeline.log_reader import Position
from tests.support.object_stores import KEY_ID, SECRET

SCHEMA = pa.schema([("committed_id", pa.int64()), ("committed_at", pa.timestamp("us", "UTC"))])


@pytest.fixture
def store(objects, monkeypatch):
    """The object store, which this test breaks."""
    for name, value in objects.environment.items():
        monkeypatch.setenv(name, value)
    yield objects
    objects.recover()


@pytest.fixture
def bucket(store):
    return store.make_bucket()


def stage(bucket, number=0):
    staging = StagingDirectory(f"{bucket}/staging", "a producer")
    writer = staging.open_writer(7, number)
    writer.write("out", 1, b"row %d" % number)
    return staging, writer.close()


def write_rows(table, first, rows=10):
    """Write a file of an archive and return it, as a task does."""
    writer = ParquetFileWriter(table.location, "", SCHEMA)
    ids = pa.array(range(first, first + rows), pa.int64())
    times = pa.array([0] * rows, pa.timestamp("us", "UTC"))
    writer.write(pa.RecordBatch.from_arrays([ids, times], schema=SCHEMA), ids, times)
    return writer.close()


def stored_ids(table):
    return sorted(load_table(table.location).to_pyarrow_dataset().to_table().column("committed_id").to_pylist())


WRITES = ("PUT", "POST")


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (503, "SlowDown")])
def test_temporary_errors_are_retried(store, bucket, status, code):
    def stumble():
        store.fail(status, code, times=1, methods=WRITES)

    stumble()
    staging, file = stage(bucket)
    assert store.count_failed() == 1
    stumble()
    manifest = staging.write_manifest(7, Manifest("stream out", [file]))
    assert store.count_failed() == 1
    assert [frame.body for frame in staging.read_frames(manifest.files[0])] == [b"row 0"]
    table = LogTable(f"{bucket}/table", "app", SCHEMA)
    table.create()
    stumble()
    written = write_rows(table, 1)
    assert store.count_failed() == 1
    stumble()
    table.commit([written], 0, Position(10))
    assert store.count_failed() == 1
    assert stored_ids(table) == list(range(1, 11))


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "AccessDenied", "access denied"),
        (403, "InvalidAccessKeyId", "credentials"),
        (503, "SlowDown", "too busy"),
        (500, "InternalError", "internal error"),
    ],
)
def test_permanent_errors_are_one_sentence_and_the_next_round_continues(
    store, bucket, status, code, reason, monkeypatch
):
    monkeypatch.setattr(limits, "STORAGE_ATTEMPTS", 1)
    table = LogTable(f"{bucket}/table", "app", SCHEMA)
    table.create()
    staging, file = stage(bucket)
    lost: WrittenFile = write_rows(table, 1)
    store.fail(status, code)
    for attempt in (
        lambda: stage(bucket),
        lambda: staging.read_manifest(7),
        lambda: staging.write_manifest(7, Manifest("stream out", [file])),
        lambda: list(staging.read_frames(file)),
        lambda: write_rows(table, 1),
        table.create,
        lambda: table.commit([lost], 0, Position(10)),
    ):
        with pytest.raises(StorageFailed, match=reason) as caught:
            attempt()
        said = str(caught.value)
        assert bucket in said
        assert "\n" not in said
        assert "<" not in said
        assert SECRET not in said
        assert KEY_ID not in said
    store.recover()
    table.commit([write_rows(table, 1)], 0, Position(10))
    assert stored_ids(table) == list(range(1, 11))
    assert staging.write_manifest(7, Manifest("stream out", [file])).files == [file]


def test_slow_replies_only_take_longer(store, bucket):
    store.delay(0.3)
    staging, file = stage(bucket)
    assert [frame.body for frame in staging.read_frames(file)] == [b"row 0"]


def test_a_bucket_that_does_not_exist(store):
    with pytest.raises(StorageFailed, match="the bucket does not exist: create it"):
        stage("s3://no-such-bucket")
    with pytest.raises(StorageFailed, match="the bucket does not exist: create it"):
        LogTable("s3://no-such-bucket/table", "app", SCHEMA).create()


def test_of_many_drivers_of_one_query_only_one_decides_what_a_batch_holds(store, bucket):
    """A driver that seemed lost may commit the same batch as its successor, with other files."""

    def commit(number):
        staging, file = stage(bucket, number)
        return staging.write_manifest(7, Manifest("stream out", [file]))

    with ThreadPoolExecutor(6) as drivers:
        found = list(drivers.map(commit, range(6)))
    assert found == [found[0]] * 6
    staging, _ = stage(bucket)
    staging.mark_done(7, found[0], {"out": "5_5"})
    staging.clean(7)
    assert staging.read_manifest(7) == Manifest("stream out", [], done=True, reached={"out": "5_5"})
    staging.delete_manifest(7)
    assert staging.read_manifest(7) is None
