"""Imports and exports without Spark: the same messages, files and progress as with Spark."""

import datetime
import decimal
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from mainstem.errors import BadOption
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.export import ExportOptions, make_export
from mainstem.pipeline.jobs.import_ import make_import
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.import_source import ImportSource
from tests.support.kills import kill_when

UTC = datetime.UTC
NESTED = pa.struct([("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string())), ("price", pa.decimal128(9, 3))])
TABLE = pa.table(
    {
        "n": pa.array([1, None, -3], pa.int32()),
        "small": pa.array([1, 255, None], pa.uint8()),
        "ratio": pa.array([0.1, float("nan"), 1e300]),
        "single": pa.array([0.1, None, 3.5], pa.float32()),
        "price": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-99999.99")], pa.decimal128(10, 2)),
        "text": ['a "quote"\n\\', "grüß 🌊", None],
        "large": pa.array(["x", None, ""], pa.large_string()),
        "yes": [True, None, False],
        "day": pa.array([0, 20_000, None], pa.date32()),
        "at": pa.array([0, 1_700_000_000_123_456, None], pa.timestamp("us", "Europe/Berlin")),
        "plain": pa.array([0, 1_700_000_000_123, None], pa.timestamp("ms")),
        "nested": pa.array(
            [
                {"at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "tags": ["a", None], "price": None},
                None,
                {"at": None, "tags": [], "price": decimal.Decimal("1.500")},
            ],
            NESTED,
        ),
        "counts": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
    }
)
CSV = (
    'id,n,price,yes,day,at,note,code\n1,10,1.5,true,2026-01-31,2026-01-31T10:11:12Z,"a ""b"", \nc",007\n'
    "2,3000000000,2,FALSE,2026-02-01,2026-01-31,grüß,12 Main St\n3,,.5,,,2026-01-31 10:11:12.5,,\n"
)
LINES = (
    '\ufeff{"shop":"eu/1","n": 1.0}\r\n\n   \n{"shop":"us/1","room":"a","n":"grüß"}\r'
    '{"shop":"eu/1","n":12345678901234567890}'
)
EVENTS = '{"key":"k1","rooms":["a","b"],"n":1}\n{"key":"k2","rooms":"a","rooms":"c","n":2}\n'


def write_inputs(inbox: Path) -> None:
    inbox.mkdir()
    (inbox / "a.ndjson").write_text(LINES, newline="")
    (inbox / "b.ndjson.gz").write_bytes(gzip.compress(b"[1]\n") + gzip.compress(b'"two"\n'))
    (inbox / "events.jsonl").write_text(EVENTS)
    pq.write_table(TABLE, inbox / "a.parquet", row_group_size=2)
    write_deltalake(str(inbox / "table"), TABLE.drop(["small", "plain"]))
    write_deltalake(
        str(inbox / "table"), pa.table({"n": pa.array([4], pa.int32())}), mode="append", schema_mode="merge"
    )
    (inbox / "a.csv").write_text(CSV, newline="")
    (inbox / "b.csv").write_text(
        "id,n,price,yes,day,at,note,code\r\n4,1,1,true,2026-01-31,2026-01-31,x,\r\n", newline=""
    )


CASES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "ndjson": ("*.ndjson*", {"stream": "out"}, {}),
    "ndjson to streams": ("a.ndjson", {"streamColumn": "shop"}, {}),
    "ndjson to partitions": ("events.jsonl", {"partitionColumn": "rooms", "idColumn": "key"}, {}),
    "parquet": ("a.parquet", {"stream": "out"}, {}),
    "parquet to a partition": ("a.parquet", {"partitions": "room"}, {}),
    "delta": ("table", {"stream": "out"}, {}),
    "csv as text": ("*.csv", {"stream": "out"}, {}),
    "csv with types": ("*.csv", {"stream": "out"}, {"infer": True}),
    "csv without header": ("a.csv", {"stream": "out"}, {"header": False}),
    "csv with a schema": (
        "a.csv",
        {"stream": "out"},
        {"schema": "id INT, n BIGINT, price DOUBLE, yes BOOLEAN, day DATE, at TIMESTAMP, note STRING, code STRING"},
    ),
}


FORMATS: dict[str, Any] = {"parquet": "parquet", "csv": "csv", "table": "delta"}


def bring(context, location, target, engine, name="", **options) -> Any:
    format_: Any = next((format_ for ending, format_ in FORMATS.items() if location.endswith(ending)), "ndjson")
    what = ImportSource(location, format_, **options)
    return run_once(make_import(what, target, name=name, engine=engine), context)


def contents(log, after):
    """Return the rows of the log after an id, by stream: each message, and which messages share an append.

    Several streams are written over several connections, so that their order among each other is open.
    """
    rows = [row for row in log.rows() if row["committed_id"] > after]
    ids = {
        name: min(row["committed_id"] for row in rows if row["stream"] == name)
        for name in {row["stream"] for row in rows}
    }
    kept = ("position", "kind", "partitions", "content_type", "data")
    return [
        (name, row["committed_id"] - first, *(row[column] for column in kept))
        for name, first in sorted(ids.items(), key=str)
        for row in rows
        if row["stream"] == name
    ]


@pytest.mark.parametrize("case", CASES)
def test_both_engines_write_the_same_messages_in_the_same_appends(log, context, tmp_path, case):
    pattern, target, options = CASES[case]
    write_inputs(tmp_path / "inbox")
    location = str(tmp_path / "inbox" / pattern)
    before = log.head_id()
    done = bring(context, location, target, "local", **options)
    assert done.engine == "local"
    written = contents(log, before)
    assert done.rows == len(written) > 0
    # Without its checkpoint, Spark sends the same requests as the same producer: the server knows them.
    head = log.head_id()
    lost = JobContext(context.server, tmp_path / "lost", master=context.master)
    again = bring(lost, location, target, "spark", **options)
    assert (again.engine, again.rows, log.head_id()) == ("spark", done.rows, head)
    if "idColumn" not in target:
        other = bring(context, location, target, "spark", name="other", **options)
        assert other.rows == done.rows
        found = contents(log, head)
        if "streamColumn" in target:
            found, written = ([(row[0], *row[2:]) for row in rows] for rows in (found, written))
        assert found == written


def test_what_only_spark_reads_is_left_to_spark(log, context, tmp_path):
    notes: list[str] = []
    context = JobContext(context.server, tmp_path / "checkpoint", master=context.master, on_wait=notes.append)
    (tmp_path / "x.csv").write_text("a,b\n10:11,1\n")
    done = bring(context, str(tmp_path / "x.csv"), {"stream": "out"}, "auto", infer=True)
    assert (done.engine, done.rows) == ("spark", 1)
    assert notes == ["this import uses Spark, since the types of the CSV column 'a' are not obvious"]
    with pytest.raises(BadOption, match="leave out --engine local"):
        bring(context, str(tmp_path / "x.csv"), {"stream": "other"}, "local", infer=True)


def take(context, output, format_, engine) -> Any:
    return run_once(make_export(str(output), ExportOptions(format_, engine=engine)), context)


@pytest.mark.parametrize("format_", ["parquet", "delta", "ndjson", "csv"])
def test_both_engines_write_the_same_files(log, context, tmp_path, format_):
    log.fill(streams=2, messages=30, partitions=2)
    log.append_bytes("bytes", b"\xff\x00")
    outputs = {engine: tmp_path / engine for engine in ("local", "spark")}
    made = {engine: take(context, output, format_, engine) for engine, output in outputs.items()}
    assert [done.engine for done in made.values()] == ["local", "spark"]
    assert made["local"].rows == made["spark"].rows
    if format_ == "delta":
        tables = [DeltaTable(str(output)) for output in outputs.values()]
        assert tables[0].schema() == tables[1].schema()
        rows = [
            table.to_pyarrow_table().sort_by([("committed_id", "ascending"), ("position", "ascending")])
            for table in tables
        ]
        assert rows[0].equals(rows[1])
        return
    files = [sorted(path.name for path in output.iterdir()) for output in outputs.values()]
    assert files[0] == files[1]
    for name in files[0]:
        if name == "_export.json":  # it also has the names of temporary files
            journals = [json.loads((output / name).read_bytes()) | {"moves": None} for output in outputs.values()]
            assert journals[0] == journals[1]
            continue
        assert (outputs["local"] / name).read_bytes() == (outputs["spark"] / name).read_bytes(), name


def test_an_export_changes_its_engine_between_rounds(log, context, tmp_path):
    log.fill(streams=1, messages=10, partitions=1)
    for engine in ("local", "spark", "auto"):
        take(context, tmp_path / "out", "ndjson", engine)
        log.fill(streams=1, messages=10, partitions=1)
    done = take(context, tmp_path / "out", "ndjson", "auto")
    assert done.engine == "local"
    lines = [json.loads(line) for file in sorted((tmp_path / "out").glob("*.ndjson")) for line in file.open()]
    assert [(line["committed_id"], line["position"]) for line in lines] == [
        (row["committed_id"], row["position"]) for row in log.rows()
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("killed", "continued"), [("local", "spark"), ("spark", "local")])
def test_a_killed_import_continues_with_the_other_engine(spark, log, pipeline, tmp_path, killed, continued, chance):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    files = 120 if killed == "local" else 12
    for number in range(files):
        (inbox / f"{number:03d}.ndjson").write_text("".join(f"{number * 50 + n}\n" for n in range(50)))
    arguments = ("import", inbox, "--stream", "out", "--url", log.url, "--master", "local[2]", "--group-files", 1)
    wanted = log.head_id() + chance.randint(1, 4)
    kill_when(
        pipeline.spawn(*arguments, "--engine", killed), lambda: log.head_id() >= wanted, then_s=chance.random() * 0.1
    )
    checkpoint = pipeline.directory / "mainstem-pipeline" / "import"
    source = ImportSource(str(inbox), "ndjson")
    context = JobContext(ServerOptions(log.url), checkpoint, master="local[2]")
    done: Any = run_once(make_import(source, {"stream": "out"}, group_files=50, engine=continued), context)
    assert (done.engine, log.read("out")) == (continued, list(range(files * 50)))
