"""The archive in the hands of other programs: Spark, DuckDB, Polars and delta-rs read the same rows, and only the files
that they need."""

import datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from mainstem.errors import BadOption
from mainstem.pipeline import read_archive
from mainstem.pipeline.jobs.archive import ArchiveOptions, make_archive
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.delta import list_files

COLUMNS = ["committed_id", "position", "kind", "stream", "partitions", "data", "date"]


@pytest.fixture
def table(log, context, tmp_path) -> str:
    location = str(tmp_path / "archive")
    log.append("orders", [{"n": n} for n in range(30)], at_once=10)
    log.submit(["room-1", "room-2"], [{"n": n} for n in range(20)])
    run_once(make_archive(location, ArchiveOptions(commit_rows=10)), context)
    log.append_bytes("blob", b"\xff\x00")
    run_once(make_archive(location), context)
    return location


def expected(log, **query):
    return [
        (row["committed_id"], row["position"], row["kind"], row.get("stream"), row.get("partitions"))
        for row in log.rows(**query)
    ]


def in_order(rows):
    return sorted(tuple(row)[:5] for row in rows)


def with_duckdb(table: str, condition: str = "true") -> list[tuple]:
    archive = DeltaTable(table).to_pyarrow_dataset()  # DuckDB finds it by its name
    assert archive is not None
    found = duckdb.sql(f"SELECT {', '.join(COLUMNS)} FROM archive WHERE {condition}")
    assert found is not None
    return found.fetchall()


def test_every_engine_reads_the_same_rows(log, table, spark):
    rows = expected(log)
    assert len(rows) == 51
    assert in_order(with_duckdb(table)) == rows
    files = DeltaTable(table).file_uris()
    by_path = duckdb.read_parquet(files, hive_partitioning=True)
    assert in_order(by_path.select(", ".join(COLUMNS)).fetchall()) == rows
    assert in_order(pl.scan_delta(table).select(COLUMNS).collect().rows()) == rows
    assert in_order(read_archive(spark, table).select(COLUMNS).collect()) == rows
    plain = spark.read.option("basePath", table).parquet(*files).select(COLUMNS)
    assert in_order(plain.collect()) == rows
    data = {row[5] for row in with_duckdb(table)}
    assert data == {bytes(row.data) for row in plain.collect()}
    assert b"\xff\x00" in data


def test_a_filter_by_date_and_kind_reads_only_the_files_of_that_partition(log, table, spark, capsys):
    """The files of all other partitions are damaged, so a program that opened one would fail."""
    rows = expected(log, kind="event")
    for file in DeltaTable(table).file_uris():
        if "kind=stream" in file:
            Path(file).write_bytes(b"damaged")
    today = {row["committed_at"][:10] for row in log.rows(kind="event")}
    condition = f"kind = 'event' AND date >= DATE '{min(today)}'"
    assert in_order(with_duckdb(table, condition)) == rows
    wanted = (pl.col("kind") == "event") & (pl.col("date") >= datetime.date.fromisoformat(min(today)))
    assert in_order(pl.scan_delta(table).filter(wanted).select(COLUMNS).collect().rows()) == rows
    found = read_archive(spark, table).where(condition).select(COLUMNS)
    assert in_order(found.collect()) == rows
    found.explain()
    plan = capsys.readouterr().out
    [filters] = [line for line in plan.splitlines() if "PartitionFilters" in line]
    assert "(kind#" in filters.split("PartitionFilters: ")[1]
    assert with_duckdb(table, "date < DATE '2000-01-01'") == []
    with pytest.raises(Exception, match=r"(?i)parquet"):
        with_duckdb(table, "kind = 'stream'")  # the damage is real


def test_every_connector_supports_the_protocol_of_the_table(table, context):
    run_once(make_archive(table, ArchiveOptions(vacuum_hours=1)), context)
    protocol = DeltaTable(table).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert not protocol.reader_features
    assert not protocol.writer_features


# As of an id


def test_an_archive_as_of_an_id_ends_with_it_whenever_it_is_made(log, context, tmp_path, spark):
    log.append("a", list(range(20)), at_once=2)
    middle = log.rows()[9]["committed_id"]
    rows = expected(log, until=middle)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    done = run_once(make_archive(first, ArchiveOptions(as_of=middle)), context)
    assert (done.rows, done.committed_id) == (len(rows), middle)
    assert done.lag == log.head_id() - middle
    log.append("a", list(range(20)), at_once=3)
    assert run_once(make_archive(first, ArchiveOptions(as_of=middle)), context).rows == 0
    run_once(make_archive(second, ArchiveOptions(as_of=middle)), context)
    assert in_order(with_duckdb(first)) == in_order(with_duckdb(second)) == rows
    run_once(make_archive(second), context)
    with pytest.raises(BadOption, match=rf"already reached committed id {log.head_id()}.*another table"):
        run_once(make_archive(second, ArchiveOptions(as_of=middle)), context)
    with pytest.raises(BadOption, match="the log ends at"):
        run_once(make_archive(first, ArchiveOptions(as_of=10**6)), context)
    # Reading as of an id
    assert in_order(read_archive(spark, second, as_of=middle).select(COLUMNS).collect()) == rows
    assert set(list_files(DeltaTable(second), middle)) < set(list_files(DeltaTable(second)))
    live = log.rows()[25]["committed_id"]
    both = read_archive(spark, first, url=log.url, as_of=live).select(COLUMNS)
    assert in_order(both.collect()) == expected(log, until=live)
    with pytest.raises(BadOption, match="the archive only reaches"):
        read_archive(spark, first, as_of=live)
    with pytest.raises(BadOption, match=r"the log of .* only reaches"):
        read_archive(spark, first, url=log.url, as_of=10**6)


# Two jobs on one table


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_of_two_jobs_on_one_table_one_says_so_and_every_row_is_archived_once(log, context, pipeline, tmp_path):
    table = str(tmp_path / "archive")
    log.append("orders", list(range(8_000)), at_once=10)
    common = ("archive", table, "--url", log.url, "--master", "local[1]", "--commit-rows", 200)
    jobs = [pipeline.spawn(*common, "--checkpoint", tmp_path / name) for name in ("one", "two")]
    done = [job.wait() for job in jobs]
    places = [row[:2] for row in with_duckdb(table)]
    assert sorted(places) == log.places(until=max(place[0] for place in places))
    [failed] = [one for one in done if one.code]
    assert (failed.code, failed.errors.count("\n")) == (1, 1)
    assert "run one job at a time" in failed.errors
    run_once(make_archive(table), context)
    assert sorted(row[:2] for row in with_duckdb(table)) == log.places()
