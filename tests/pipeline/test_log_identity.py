"""A log that is restored and diverges: what has read no more than the backup holds continues, all else is refused."""

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from mainstem.errors import OtherLog
from mainstem.pipeline import read_archive
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.export import ExportOptions, make_export
from mainstem.pipeline.jobs.import_ import make_import
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, make_snapshot
from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
from mainstem.pipeline.jobs.targets import TargetSelector
from mainstem.pipeline.lake.archive_table import open_archive
from mainstem.pipeline.lake.import_source import ImportSource
from mainstem.pipeline.log_reader import Head, Position

SNAPSHOT = SnapshotOptions(TargetSelector(streams=("in",)), make_reducer("state"))


class Readers:
    """A query, an archive, an export, snapshots and an import, with checkpoints of their own."""

    def __init__(self, spark, url: str, folder: Path) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        folder.mkdir()
        self.rows: list[int] = []
        self.source = folder / "rows.ndjson"
        self.source.write_text("1\n")

    def context(self, name: str) -> JobContext:
        return JobContext(ServerOptions(self.url), self.folder / name, master="local[2]")

    def follow(self) -> list[int]:
        """Run the query, and return all rows that it has read so far."""
        reader = self.spark.readStream.format("mainstem").option("url", self.url)
        frame = reader.option("schema", "n INT").load("in").select("n")
        writer = frame.writeStream.foreachBatch(lambda batch, _: self.rows.extend(row.n for row in batch.collect()))
        query = writer.option("checkpointLocation", str(self.folder / "query")).trigger(availableNow=True).start()
        assert query.awaitTermination(90)
        return self.rows

    def offsets(self) -> list[Path]:
        return sorted((self.folder / "query/offsets").glob("[0-9]*"), key=lambda path: int(path.name))

    def last_offset(self) -> dict:
        return json.loads(self.offsets()[-1].read_text().splitlines()[-1])

    def archive(self) -> int:
        return run_once(make_archive(str(self.folder / "archive")), self.context("a")).rows

    def export(self) -> int:
        return run_once(make_export(str(self.folder / "export"), ExportOptions("ndjson")), self.context("e")).rows

    def snapshot(self) -> int:
        return run_once(make_snapshot(SNAPSHOT), self.context("s")).committed_id

    def import_(self) -> int:
        source = ImportSource(str(self.source), "ndjson")
        return run_once(make_import(source, {"stream": f"into-{self.folder.name}"}), self.context("i")).rows

    def run_all(self) -> None:
        for job in (self.import_, self.follow, self.archive, self.export, self.snapshot):
            job()


def restore(shell, server, log) -> str:
    server.terminate()
    done = json.loads(shell.ok("restore", "copy.db", "--data", str(server.data), "--force", "--json"))
    server.start()
    assert log.head()["epoch"] == done["epoch"]
    return done["epoch"]


def numbers(first, last):
    return [{"n": number} for number in range(first, last)]


def test_a_restored_log_is_told_apart_from_the_original_and_from_other_restores(spark, server, log, shell, tmp_path):
    early, late = Readers(spark, log.url, tmp_path / "early"), Readers(spark, log.url, tmp_path / "late")
    log.append("in", numbers(0, 10), at_once=1)
    early.run_all()
    assert early.rows == list(range(10))
    shell.ok("backup", "copy.db", "--data", str(server.data))
    point = log.head_id()
    log.append("in", numbers(10, 20), at_once=1)
    late.run_all()
    first = restore(shell, server, log)
    log.append("in", numbers(100, 150), at_once=1)
    assert log.head_id() > late.last_offset()["committed_id"] > point

    said = rf"in epoch 0 of the log, but {log.url} is in epoch {first} since committed id {point}: it was restored"
    with pytest.raises(StreamingQueryException, match=said):
        late.follow()
    for job in (late.archive, late.export, late.snapshot, late.import_):
        with pytest.raises(OtherLog, match=said):
            job()
    with pytest.raises(OtherLog, match=said):
        read_archive(spark, str(late.folder / "archive"), url=log.url)
    assert late.rows == list(range(20))  # and nothing else

    assert early.follow() == [*range(10), *range(100, 150)]
    assert early.archive() == 50
    assert early.export() == 50
    assert early.snapshot() == log.head_id()
    assert early.import_() == 0
    assert early.last_offset()["epoch"] == first
    assert open_archive(str(early.folder / "archive")).holds_identity()

    restore(shell, server, log)
    log.append("in", numbers(200, 299), at_once=1)
    with pytest.raises(StreamingQueryException, match=f"in epoch {first} of the log"):
        early.follow()
    with pytest.raises(OtherLog, match=f"in epoch {first} of the log"):
        early.archive()


def test_checkpoints_and_archives_of_an_older_version_continue_and_gain_the_identity(spark, log, tmp_path, monkeypatch):
    readers = Readers(spark, log.url, tmp_path / "old")
    log.append("in", numbers(0, 10), at_once=1)
    with monkeypatch.context() as older:
        older.setattr(Head, "locate", lambda head, committed_id: Position(committed_id))
        readers.archive()
        readers.export()
    readers.follow()
    table = open_archive(str(readers.folder / "archive"))
    assert not table.holds_identity()
    for path in readers.offsets():
        *head, offset = path.read_text().splitlines()
        reached = {"committed_id": json.loads(offset)["committed_id"]}
        path.write_text("\n".join([*head, json.dumps(reached)]))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    batches = len(readers.offsets())
    assert readers.follow() == list(range(10))
    assert len(readers.offsets()) == batches  # no batch without new rows
    assert "log" not in readers.last_offset()
    log.append("in", numbers(10, 20), at_once=1)
    assert readers.follow() == list(range(20))
    assert readers.last_offset()["log"] == log.head()["log"]
    assert readers.archive() == readers.export() == 10
    assert table.find_position() == Position(log.head_id(), log.head()["log"], "0")
    assert json.loads((readers.folder / "export/_export.json").read_text())["log"] == log.head()["log"]
