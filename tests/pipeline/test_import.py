"""Imports: every row of the files exactly once, in order, however often the job is killed or repeated."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from mainstem.errors import BadOption, BadRow
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.import_ import make_import
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.import_source import ImportSource, guess_format
from tests.support.kills import kill_when

ORDERS = {"stream": "orders"}


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def bring(context, source, target=ORDERS, format_=None, *, name="", group_files=None, **options):
    location = str(source)
    what = ImportSource(location, format_ or guess_format(location), **options)
    return run_once(make_import(what, target, name=name, group_files=group_files), context)


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_json_lines_are_imported_byte_for_byte(log, context, inbox):
    sent = ['{"n": 1.0, "big": 12345678901234567890}', '{"text":"grüß"}', "7", '"seven"']
    (inbox / "a.ndjson").write_text("\n".join(sent) + "\n\n")
    done = bring(context, inbox / "a.ndjson")
    assert (done.rows, done.files, done.committed_id, done.lag) == (4, 1, log.head()["head"], 0)
    assert [row["data"] for row in log.rows()] == sent


def test_files_are_imported_by_name_and_rows_in_order(log, context, inbox):
    for number in (3, 1, 2):
        values = [{"file": number, "n": n} for n in range(10 * (4 - number))]
        (inbox / f"{number}.jsonl").write_text(lines(*values))
    bring(context, inbox)
    assert [(row["file"], row["n"]) for row in log.read("orders")] == [
        (number, n) for number in (1, 2, 3) for n in range(10 * (4 - number))
    ]


def test_parquet_rows_become_objects(log, context, inbox):
    pq.write_table(
        pa.table({"n": [1, 2], "shop": ["a", None], "day": pa.array([0, 1], pa.date32())}), inbox / "x.parquet"
    )
    bring(context, inbox / "x.parquet")
    assert log.read("orders") == [{"n": 1, "shop": "a", "day": "1970-01-01"}, {"n": 2, "day": "1970-01-02"}]


def test_directory_names_become_columns(log, context, inbox):
    for shop in ("a", "b"):
        (inbox / f"shop={shop}").mkdir()
        pq.write_table(pa.table({"n": [1, 2]}), inbox / f"shop={shop}" / "x.parquet")
    bring(context, inbox)
    assert log.read("orders") == [{"n": n, "shop": shop} for shop in ("a", "b") for n in (1, 2)]


def test_csv_is_text_unless_types_are_inferred(log, context, inbox):
    (inbox / "x.csv").write_text('code,n,text\n007,1,"a ""b""\nc"\n008,2,\n')
    bring(context, inbox / "x.csv")
    assert log.read("orders") == [{"code": "007", "n": "1", "text": 'a "b"\nc'}, {"code": "008", "n": "2"}]
    bring(context, inbox / "x.csv", {"stream": "typed"}, schema="code STRING, n INT, text STRING")
    assert [(row["code"], row["n"]) for row in log.read("typed")] == [("007", 1), ("008", 2)]
    bring(context, inbox / "x.csv", {"stream": "inferred"}, infer=True)
    assert [row["n"] for row in log.read("inferred")] == [1, 2]


def test_a_delta_table_is_imported_at_one_version(log, context, inbox):
    table = str(inbox / "table")
    write_deltalake(table, pa.table({"n": [1, 2]}))
    write_deltalake(table, pa.table({"n": [3]}), mode="append")
    assert bring(context, table).rows == 3
    assert log.read("orders") == [{"n": 1}, {"n": 2}, {"n": 3}]
    write_deltalake(table, pa.table({"n": [9]}), mode="overwrite")
    assert bring(context, table).rows == 0
    assert bring(context, table, {"stream": "first"}, version=0).rows == 2


def test_compressed_lines(log, context, inbox):
    (inbox / "a.ndjson.gz").write_bytes(gzip.compress(lines(1, 2).encode()))
    bring(context, inbox)
    assert log.read("orders") == [1, 2]


def test_rows_go_to_the_streams_that_they_name(log, context, inbox):
    (inbox / "a.ndjson").write_text(lines({"shop": "eu/1", "n": 1}, {"shop": "us/1", "n": 2}, {"shop": "eu/1", "n": 3}))
    bring(context, inbox, {"streamColumn": "shop"})
    assert [row["n"] for row in log.read("eu/1")] == [1, 3]
    assert [row["n"] for row in log.read("us/1")] == [2]


def test_events_with_ids_and_partitions_from_columns(log, context, inbox):
    first = {"key": "one", "rooms": ["a", "b"], "n": 1}
    second = {"key": "two", "rooms": "a", "n": 2}
    (inbox / "a.ndjson").write_text(lines(first, second))
    bring(context, inbox, {"partitionColumn": "rooms", "idColumn": "key", "clientId": "importer"})
    rows = log.rows(kind="event")
    assert [(row["id"], row["partitions"], row["client_id"]) for row in rows] == [
        ("one", ["a", "b"], "importer"),
        ("two", ["a"], "importer"),
    ]
    assert [json.loads(row["data"]) for row in rows] == [first, second]


def test_parquet_rows_become_events_of_one_partition(log, context, inbox):
    pq.write_table(pa.table({"n": list(range(120))}), inbox / "x.parquet")
    bring(context, inbox, {"partitions": "room"})
    assert [json.loads(row["data"])["n"] for row in log.rows(partition="room")] == list(range(120))
    assert bring(context, inbox, {"partitions": "room"}).rows == 0


def test_an_archive_can_be_imported_again(log, context, tmp_path):
    log.fill(streams=2, messages=20, partitions=0)
    before = {name: log.read(name) for name in ("orders/0", "orders/1")}
    run_once(make_archive(str(tmp_path / "archive")), context)
    for name in before:
        log.http.delete(f"/v1/stream/{name}").raise_for_status()
    bring(context, tmp_path / "archive", {"streamColumn": "stream", "valueColumn": "data"})
    assert {name: log.read(name) for name in before} == before


# Exactly once


def test_nothing_is_imported_twice(log, context, inbox):
    (inbox / "1.ndjson").write_text(lines(1, 2))
    bring(context, inbox)
    assert bring(context, inbox).rows == 0
    (inbox / "2.ndjson").write_text(lines(3))
    assert bring(context, inbox).rows == 1
    assert log.read("orders") == [1, 2, 3]
    assert bring(context, inbox, name="once more").rows == 3


def test_a_lost_checkpoint_imports_nothing_twice(log, context, inbox, tmp_path):
    """The producer id is derived from the files, so the server recognises what it has already."""
    (inbox / "1.ndjson").write_text(lines(*range(5_000)))
    (inbox / "2.ndjson").write_text(lines(*range(5_000, 5_010)))
    bring(context, inbox)
    again = JobContext(context.server, tmp_path / "new-checkpoint", master=context.master)
    bring(again, inbox)
    assert log.read("orders") == list(range(5_010))


def test_a_dry_run_counts_and_changes_nothing(log, context, inbox):
    (inbox / "1.ndjson").write_text(lines(1, 2))
    context.dry_run = True
    assert bring(context, inbox).rows == 2
    assert log.read("orders") == []
    context.dry_run = False
    assert bring(context, inbox).rows == 2


# Faults


def test_a_line_that_is_not_json_is_an_error_and_nothing_of_its_group_is_sent(log, context, inbox):
    (inbox / "1.ndjson").write_text(lines(1) + "{oops\n")
    with pytest.raises(BadRow, match="not JSON"):
        bring(context, inbox)
    assert log.read("orders") == []


@pytest.mark.parametrize("now", ["[2]\n3\n", "22\n33\n44\n"])
def test_a_file_that_changed_after_it_was_planned_is_refused(log, context, inbox, now):
    (inbox / "1.ndjson").write_text(lines(1))
    (inbox / "2.ndjson").write_text("{oops\n")
    with pytest.raises(BadRow):
        bring(context, inbox, group_files=1)
    (inbox / "2.ndjson").write_text(now)  # one of the variants has the same length as before
    with pytest.raises(BadOption, match="has changed"):
        bring(context, inbox, group_files=1)
    assert log.read("orders") == [1]


def test_a_file_that_grew_after_it_was_imported_is_refused(log, context, inbox):
    (inbox / "1.ndjson").write_text(lines(1))
    bring(context, inbox)
    (inbox / "1.ndjson").write_text(lines(1, 2))
    with pytest.raises(BadOption, match="into a new file"):
        bring(context, inbox)


def test_no_column_is_lost(log, context, inbox):
    pq.write_table(pa.table({"n": [1]}), inbox / "1.parquet")
    pq.write_table(pa.table({"n": [2], "more": [3]}), inbox / "2.parquet")
    with pytest.raises(BadOption, match="the column 'more'"):
        bring(context, inbox)
    bring(context, inbox, schema="n BIGINT, more BIGINT")
    assert log.read("orders") == [{"n": 1}, {"n": 2, "more": 3}]


def test_columns_that_were_added_later_to_a_delta_table_are_imported(log, context, inbox):
    table = str(inbox / "table")
    write_deltalake(table, pa.table({"n": [1]}))
    write_deltalake(table, pa.table({"n": [2], "more": ["x"]}), mode="append", schema_mode="merge")
    bring(context, table)
    assert log.read("orders") == [{"n": 1}, {"n": 2, "more": "x"}]


@pytest.mark.parametrize(
    ("second", "error", "reason"),
    [
        ("n,shop\n1,a,too,many\n", BadRow, r"2\.csv has a line that does not fit its header \(1,a,too,many\)"),
        ("shop,n\na,1\n", BadOption, r"2\.csv has another header than the first file"),
    ],
)
def test_csv_that_does_not_fit_is_refused(log, context, inbox, second, error, reason):
    (inbox / "1.csv").write_text("n,shop\n1,a\n")
    (inbox / "2.csv").write_text(second)
    with pytest.raises(error, match=reason):
        bring(context, inbox)
    assert log.read("orders") == []


def test_a_damaged_parquet_file_is_refused(log, context, inbox):
    (inbox / "x.parquet").write_bytes(b"no Parquet")
    with pytest.raises(BadOption, match=r"x\.parquet is not a Parquet file, or it is damaged"):
        bring(context, inbox)


def test_a_missing_column_is_refused(log, context, inbox):
    pq.write_table(pa.table({"n": [1]}), inbox / "x.parquet")
    with pytest.raises(BadOption, match="there is no column 'shop'"):
        bring(context, inbox, {"streamColumn": "shop"})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("into", ["stream", "partition"])
def test_a_job_killed_while_importing_imports_every_row_once(spark, log, pipeline, inbox, into, chance):
    for number in range(7):
        values = [{"n": number * 100 + n} for n in range(100)]
        (inbox / f"{number:02d}.ndjson").write_text(lines(*values))
    target = {"stream": "orders"} if into == "stream" else {"partitions": "room"}
    arguments = (
        "import",
        inbox,
        f"--{into}",
        *target.values(),
        "--url",
        log.url,
        "--master",
        "local[2]",
        "--engine",
        "spark",
        "--group-files",
        1,
    )
    # Some of the files are imported, the others are not.
    wanted = log.head_id() + chance.randint(1, 2)
    kill_when(pipeline.spawn(*arguments), lambda: log.head_id() >= wanted, then_s=chance.random() * 0.4)
    checkpoint = pipeline.directory / "mainstem-pipeline" / "import"
    assert checkpoint.is_dir()
    bring(JobContext(ServerOptions(log.url), checkpoint, master="local[2]"), inbox, target, group_files=1)
    assert [json.loads(row["data"])["n"] for row in log.rows()] == list(range(700))
