"""Exports: the selected rows, each once, in files that appear complete."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from mainstem.errors import BadOption, BadRow, HistoryLost, JobFailed, OtherLog
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.export import ExportOptions, make_export
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.export_directory import JOURNAL, SUCCESS, TEMPORARY, ExportDirectory
from mainstem.pipeline.log_reader import Selection
from tests.support.kills import kill_when


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "export"


def export(context, output: Path, format_="parquet", selection=None, **options):
    return run_once(make_export(str(output), ExportOptions(format_, selection or Selection(), **options)), context)


def files(output: Path, ending: str) -> list[Path]:
    return sorted(output.glob(f"*.{ending}"))


def exported(output: Path) -> list[dict]:
    """Return the rows of Parquet files, in the order of the file names."""
    return [row for file in files(output, "parquet") for row in pq.ParquetFile(file).read().to_pylist()]


def places(rows) -> list[tuple[int, int]]:
    return [(row["committed_id"], row["position"]) for row in rows]


def test_parquet_has_every_row_in_the_order_of_the_log(log, context, output):
    rows = log.fill()
    done = export(context, output, commit_rows=150)
    assert (done.rows, done.committed_id, done.files) == (rows, log.head()["head"], len(files(output, "parquet")))
    assert places(exported(output)) == log.places()
    assert [row["data"].decode() for row in exported(output)] == [row["data"] for row in log.rows()]
    assert (output / SUCCESS).exists()
    assert not (output / TEMPORARY).exists()
    assert done.bytes == sum(file.stat().st_size for file in files(output, "parquet"))


def test_ndjson_equals_the_log_over_http(log, context, output):
    log.fill(streams=1, messages=10, partitions=1, events=5)
    log.append_bytes("blob", b"\xff\x00")
    export(context, output, "ndjson")
    lines = [json.loads(line) for file in files(output, "ndjson") for line in file.read_text().splitlines()]
    told = [{name: value for name, value in row.items() if value is not None} for row in log.rows()]
    assert lines == told


def test_csv_has_a_header_and_flat_columns(log, context, output):
    log.append("orders", [{"text": 'a "quoted"\nline, and more'}])
    log.append_bytes("blob", b"\xff\x00")
    log.submit(["room-1", "room-2"], [{"n": 1}])
    export(context, output, "csv")
    rows = []
    for file in files(output, "csv"):
        with file.open(newline="") as lines:
            rows += list(csv.DictReader(lines))
    assert [row["stream"] for row in rows] == ["orders", "blob", ""]
    assert json.loads(rows[0]["data"]) == {"text": 'a "quoted"\nline, and more'}
    assert (rows[1]["data"], rows[1]["data_base64"]) == ("", "/wA=")
    assert json.loads(rows[2]["partitions"]) == ["room-1", "room-2"]
    assert [row["committed_at"] for row in rows] == [row["committed_at"] for row in log.rows()]


def test_messages_are_lines_as_they_were_sent(log, context, output):
    log.create("orders")
    sent = b'{"n": 1.0,\n "big": 12345678901234567890}'
    headers = {"Content-Type": "application/json"}
    log.http.post("/v1/stream/orders", headers=headers, content=sent).raise_for_status()
    log.append("orders", [2])
    log.append("other", [3])
    export(context, output, "ndjson", Selection(streams=("orders",)), messages=True)
    lines = [line for file in files(output, "ndjson") for line in file.read_bytes().splitlines()]
    assert lines == [sent.replace(b"\n", b" "), b"2"]


def test_bytes_cannot_be_lines(log, context, output):
    log.append_bytes("blob", b"\xff\x00")
    with pytest.raises(BadRow, match="not a line of JSON"):
        export(context, output, "ndjson", messages=True)
    with pytest.raises(BadOption, match="ndjson"):
        export(context, output, "csv", messages=True)


def test_a_schema_adds_typed_columns(log, context, output):
    log.append("orders", [{"n": 1, "shop": "a"}, {"n": "not a number", "shop": "b"}, 7])
    export(context, output, columns=("committed_id", "position"), schema="n INT, shop STRING")
    found = exported(output)
    assert [(row["n"], row["shop"]) for row in found] == [(1, "a"), (None, "b"), (None, None)]
    assert list(found[0]) == ["committed_id", "position", "n", "shop"]


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(streams=("orders/*",)), {"prefix": "orders/"}),
        (Selection(partitions=("room-0",)), {"partition": "room-0"}),
        (Selection(kind="event"), {"kind": "event"}),
    ],
)
def test_filters_select_the_rows(log, context, output, selection, wanted):
    log.fill(streams=2, messages=20, partitions=2, events=10)
    log.append("else", [1])
    done = export(context, output, selection=selection, commit_rows=25)
    assert places(exported(output)) == log.places(**wanted)
    assert 0 < done.rows < len(log.places())
    assert done.committed_id == log.head()["head"]


def test_a_range_of_ids_and_times_selects_the_rows(log, context, output, tmp_path):
    log.append("a", list(range(20)), at_once=1)
    ids = [row["committed_id"] for row in log.rows()]
    export(context, output, from_id=ids[3], to_id=ids[7])
    assert [row["committed_id"] for row in exported(output)] == ids[3:8]
    log.append("a", [1])
    assert export(context, output, from_id=ids[3], to_id=ids[7]).rows == 0
    since = exported(output)[2]["committed_at"]
    since_us = int(since.timestamp()) * 1_000_000 + since.microsecond
    export(context, tmp_path / "later", selection=Selection(since_us=since_us), to_id=ids[7])
    assert exported(tmp_path / "later")[0]["committed_at"] == since


def test_the_next_round_adds_new_rows(log, context, output):
    log.append("a", [1, 2])
    export(context, output)
    first = files(output, "parquet")
    log.append("b", [3])
    assert export(context, output).rows == 1
    assert places(exported(output)) == log.places()
    assert set(first) < set(files(output, "parquet"))
    assert export(context, output).rows == 0
    assert (output / SUCCESS).exists()


def test_a_delta_export_is_a_table_that_can_be_continued(log, context, output):
    log.fill(streams=2, messages=30, partitions=1, events=10)
    wanted = Selection(kind="stream")
    assert export(context, output, "delta", wanted, commit_rows=25).rows == 60
    log.append("more", [1])
    assert export(context, output, "delta", wanted).rows == 1
    assert export(context, output, "delta", wanted).rows == 0
    uris = DeltaTable(output).file_uris()
    found = sorted(places(row for uri in uris for row in pq.ParquetFile(uri).read().to_pylist()))
    assert found == log.places(kind="stream")
    with pytest.raises(BadOption, match="give another location"):
        export(context, output, "delta", Selection(kind="event"))


def test_a_dry_run_counts_and_writes_nothing(log, context, output):
    log.fill(streams=2, messages=10, partitions=0)
    context.dry_run = True
    for format_ in ("parquet", "delta"):
        done = export(context, output, format_, Selection(streams=("orders/1",)))
        assert (done.rows, done.files) == (10, 0)
    assert not output.exists()


# Faults


def test_an_invalid_schema_is_reported_before_the_directory_is_claimed(log, context, output):
    log.append("a", [{"n": 1}])
    with pytest.raises(BadOption, match=r"the schema is not valid|Spark has no type"):
        export(context, output, schema="n NUMBER OF SORTS")
    assert export(context, output, schema="n INT").rows == 1


def test_the_log_of_another_server_is_refused(log, context, output, start_server, open_log, tmp_path):
    log.append("a", [1, 2])
    export(context, output)
    other = open_log(start_server(data=tmp_path / "other").url)
    other.append("b", list(range(9)), at_once=1)
    with pytest.raises(OtherLog, match=f"belongs to log .* serves log {other.head()['log']}"):
        export(JobContext(ServerOptions(other.url), tmp_path / "c", master=context.master), output)
    assert len(exported(output)) == 2


def test_a_batch_without_a_journal_is_discarded_and_one_with_a_journal_is_finished(log, context, output, monkeypatch):
    log.append("a", list(range(40)), at_once=10)
    moves = []

    def die(self, journal, *, write=False):
        moves.append(journal)
        if write and len(moves) == 3:
            self._write(JOURNAL, _encode(journal))
            raise JobFailed("killed between the journal and the moves")
        return whole(self, journal, write=write)

    whole = ExportDirectory._move
    monkeypatch.setattr(ExportDirectory, "_move", die)
    with pytest.raises(JobFailed, match="killed between"):
        export(context, output, commit_rows=10)
    assert not (output / SUCCESS).exists()
    assert list((output / TEMPORARY).iterdir())
    stray = output / TEMPORARY / "stray.parquet"
    stray.write_bytes(b"half a file")
    monkeypatch.undo()
    export(context, output, commit_rows=10)
    assert places(exported(output)) == log.places()
    assert not stray.exists()


def _encode(journal) -> bytes:
    import msgspec

    return msgspec.json.encode(journal)


def test_pruning_between_two_rounds_is_an_error(log, context, output):
    log.submit("room", [{"n": number} for number in range(3)])
    export(context, output)
    log.submit("room", [{"n": number} for number in range(3)], client="second")
    floor = log.rows()[-1]["committed_id"]
    log.prune("room", floor)
    with pytest.raises(HistoryLost, match="--accept-loss"):
        export(context, output)
    log.submit("room", [{"n": 7}], client="third")
    assert export(context, output, accept_loss=True).rows == 1
    assert len(exported(output)) == 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_killed_while_exporting_exports_every_row_once(spark, log, pipeline, output, chance):
    log.append("orders", list(range(2_000)), at_once=10)
    arguments = ("export", output, "--url", log.url, "--master", "local[2]", "--commit-rows", 200, "--engine", "spark")
    # Some of the ten groups of rows are exported, the others are not.
    wanted = chance.randint(1, 3)
    kill_when(pipeline.spawn(*arguments), lambda: len(files(output, "parquet")) >= wanted, then_s=chance.random() * 0.3)
    assert len(set(places(exported(output)))) == len(exported(output))
    context = JobContext(ServerOptions(log.url), pipeline.directory / "mainstem-pipeline" / "export", master="local[2]")
    assert export(context, output, commit_rows=200).committed_id == log.head_id()
    assert places(exported(output)) == log.places()
    assert (output / SUCCESS).exists()
