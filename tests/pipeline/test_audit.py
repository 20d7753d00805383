"""The audit finds and names the faults of a log, and finds none in an intact log."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.audit.job import AuditOptions, AuditSummary, make_audit
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.lake.archive_table import open_archive
from mainstem.testing.server import ServerProcess
from tests.pipeline.conftest import MASTER
from tests.pipeline.planted import EVENT_IDS, PRODUCERS, STREAMS, Store, opened
from tests.support.kills import kill_when
from tests.support.log_client import LogClient
from tests.support.waits import eventually

STREAMS_OF_FAULTS = [
    *("gap", "overlap", "end", "beginning", "gone", "nameless", "longer", "count", "behind", "ahead"),
    *("unknown-producer", "well", "time"),
]


def fill(log: LogClient) -> None:
    for name in STREAMS_OF_FAULTS:
        path = f"s/{name}"
        log.create(path)
        for seq in range(6):
            headers = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(seq)}
            body = json.dumps([{"n": seq, "of": name}, {"grüß": seq}])
            log.http.post(
                f"/v1/stream/{path}", headers={"Content-Type": "application/json", **headers}, content=body
            ).raise_for_status()
    log.append("s/broken", [{"n": 1}, {"n": 2}, {"n": 3}], at_once=1)
    log.append_bytes("s/bytes", b"\xff\x00")
    log.append_bytes("s/bytes", b"more")
    log.submit(["room-1", "room-2"], [{"n": n, "float": 1.0, "big": 2**60} for n in range(40)])


def audit(url: str, checkpoint: Path, **options) -> AuditSummary:
    context = JobContext(ServerOptions(url), checkpoint, master=MASTER)
    done = run_once(make_audit(AuditOptions(**options)), context)
    assert isinstance(done, AuditSummary)
    return done


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory) -> Iterator[AuditSummary]:
    """One audit of a log with a fault of every kind, each in a separate stream or event."""
    folder = tmp_path_factory.mktemp("audit")
    with ServerProcess(folder / "data") as server:
        with closing(LogClient(server.url)) as log:
            fill(log)
        with opened(server) as store:
            plant(store)
        yield audit(server.url, folder / "checkpoint", examples=100)


def plant(store: Store) -> None:
    store.remove(store.appends_to("s/gap")[2])
    moved = store.appends_to("s/overlap")[3]
    start = store.db.execute('SELECT "start" FROM records WHERE committed_id = ?', (moved,)).get
    store.set(moved, start=start - 1)
    store.remove(store.appends_to("s/end")[-1])
    store.remove(store.appends_to("s/beginning")[0])
    for number in store.appends_to("s/gone"):
        store.remove(number)
    store.change_state(STREAMS, "s/longer", tail=store.state(STREAMS, "s/longer").tail - 1)
    store.change_state(STREAMS, "s/count", messages=99)
    changed = store.appends_to("s/broken")[1]
    store.set(changed, data=store.data(changed).replace(b'"n":', b'"n";'))
    store.change_state(PRODUCERS, "s/behind\0p", last_seq=3)
    store.change_state(PRODUCERS, "s/ahead\0p", last_seq=9)
    store.forget_state(PRODUCERS, "s/unknown-producer\0p")
    early = store.appends_to("s/time")[3]
    store.set(early, committed_at_us=1_000_000)
    store.forget_state(STREAMS, "s/nameless")

    changed = store.event_id(3)
    store.set(changed, data=store.data(changed).replace(b'"n": 3', b'"n": 4').replace(b'"n":3', b'"n":4'))
    store.change_state(EVENT_IDS, "tests-room-1-5", digest=bytes(32))
    store.forget_state(EVENT_IDS, "tests-room-1-7")
    store.change_state(EVENT_IDS, "tests-room-1-9", committed_id=store.event_id(9) - 1)
    store.copy(store.event_id(12))
    store.remove(store.event_id(11))


FAULTS = [
    ("offset", "s/gap"),
    ("offset", "s/overlap"),
    ("stream", "s/end"),
    ("stream", "s/beginning"),
    ("stream", "s/gone"),
    ("stream", "s/nameless"),
    ("stream", "s/longer"),
    ("stream", "s/count"),
    ("json", "s/broken"),
    ("producer", "s/behind"),
    ("producer", "s/ahead"),
    ("producer", "s/unknown-producer"),
    ("time", None),
    ("hash", "tests-room-1-3"),
    ("hash", "tests-room-1-5"),
    ("unknown_id", "tests-room-1-7"),
    ("unknown_id", "tests-room-1-9"),
    ("lost_event", "tests-room-1-11"),
    ("duplicate_id", "tests-room-1-12"),
]


@pytest.mark.parametrize(("rule", "name"), FAULTS, ids=[f"{rule}:{name}" for rule, name in FAULTS])
def test_each_kind_of_fault_is_found_and_named(found, rule, name):
    details = [example["detail"] for example in found.examples if (example["rule"], example["name"]) == (rule, name)]
    assert details
    assert name is None or name in details[0]


def test_nothing_else_is_reported(found):
    also = {  # consequences of a fault, or its other side
        *(("producer", f"s/{name}") for name in ("gap", "end", "beginning", "gone")),
        *(("stream", f"s/{name}") for name in ("gap", "overlap", "broken")),
    }
    seen = {(example["rule"], example["name"]) for example in found.examples}
    assert seen - set(FAULTS) - also == set()
    assert found.faults == sum(found.found.values()) == len(found.examples)
    assert set(found.found) == {rule for rule, _ in FAULTS}


def test_a_record_that_cannot_be_decoded_is_a_fault(spark, server, log, tmp_path):
    log.append("broken", [{"n": 1}, {"n": 2}])
    log.submit(["room"], [{"n": 3}])
    event = log.rows(kind="event")[0]["committed_id"]
    with opened(server) as store:
        (number,) = store.appends_to("broken")
        store.set(number, data=store.data(number).replace(b'"n":', b'"n";'))
        store.set(event, data=store.data(event)[:-1])
    context = JobContext(ServerOptions(server.url, retry_s=1), tmp_path / "audit", master=MASTER)
    found = run_once(make_audit(AuditOptions()), context)
    assert isinstance(found, AuditSummary)
    assert found.found["json"] == 2
    # One message fewer than counted, and an id without its event.
    assert set(found.found) == {"json", "stream", "lost_event"}


@pytest.fixture
def archive(spark, log: LogClient, context: JobContext, tmp_path: Path) -> Path:
    log.fill(streams=2, messages=50, partitions=2, events=20)
    run_once(make_archive(str(tmp_path / "lake")), context)
    return tmp_path / "lake"


def test_an_intact_log_has_no_faults(log, context, archive, tmp_path):
    log.create("trimmed", **{"Stream-Retention": "max-messages=3"})
    log.append_bytes("text", "grüß".encode(), "text/plain")
    log.http.put("/v1/stream/fork", headers={"Stream-Forked-From": "/v1/stream/orders/0"}).raise_for_status()
    log.http.post("/v1/stream/fork", headers={"Content-Type": "application/json"}, content=b"[1,2]").raise_for_status()
    log.append("again", [1], at_once=1)
    log.http.delete("/v1/stream/again").raise_for_status()
    log.append("again", [2, 3], at_once=1)
    # The server erases it later; it is counted below.
    eventually(lambda: ("again", "1") not in [(row["stream"], row["data"]) for row in log.rows()])
    closing_headers = {"Producer-Id": "q", "Producer-Epoch": "7", "Producer-Seq": "0", "Stream-Closed": "true"}
    log.http.post("/v1/stream/fork", headers=closing_headers).raise_for_status()
    done = audit(log.url, tmp_path / "audit", archive=str(archive))
    assert (done.faults, done.found, done.examples) == (0, {}, [])
    rows = log.rows(until=done.committed_id)
    assert (done.rows, done.events) == (len(rows), sum(row["kind"] == "event" for row in rows))
    assert done.event_ids == 40
    assert done.archived == 140
    assert not (tmp_path / "audit" / "findings").exists()


def test_faults_of_the_archive_are_found(log, context, archive, tmp_path):
    """The test changes rows in the files of the table, without a commit."""
    files = [Path(uri.removeprefix("file://")) for uri in open_archive(str(archive)).load().file_uris()]
    for path in files:
        table = pq.read_table(path, partitioning=None)
        if table.column("id")[0].as_py() is not None:
            duplicated = table.slice(4, 1)
            kept = pa.concat_tables([table.slice(0, 2), table.slice(3), duplicated])  # the third is missing
            pq.write_table(kept, path)
        else:
            data = table.column("data").to_pylist()
            data[5] = data[5].replace(b"5", b"6")
            changed = table.set_column(table.schema.get_field_index("data"), "data", pa.array(data, pa.binary()))
            extra = changed.slice(7, 1).set_column(1, "position", pa.array([99], pa.int32()))
            pq.write_table(pa.concat_tables([changed, extra.cast(changed.schema)]), path)
    done = audit(log.url, tmp_path / "audit", archive=str(archive))
    events = [row for row in log.rows() if row["kind"] == "event"]
    streams = [row for row in log.rows() if row["kind"] == "stream"]
    assert done.found == {"archive_missing": 1, "archive_duplicate": 1, "archive_changed": 1, "archive_extra": 1}
    places = {example["rule"]: example["committed_id"] for example in done.examples}
    assert places == {
        "archive_missing": events[2]["committed_id"],
        "archive_duplicate": events[4]["committed_id"],
        "archive_changed": streams[5]["committed_id"],
        "archive_extra": streams[7]["committed_id"],
    }


def test_lost_or_damaged_files_of_the_archive_are_found(log, context, archive, tmp_path):
    lost, damaged = sorted(Path(uri.removeprefix("file://")) for uri in open_archive(str(archive)).load().file_uris())
    rows = {path: pq.read_metadata(path).num_rows for path in (lost, damaged)}
    lost.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-100])
    done = audit(log.url, tmp_path / "audit", archive=str(archive))
    assert done.found == {"archive_file": 2, "archive_missing": sum(rows.values())}
    assert done.archived == 0
    told = {
        example["name"].removeprefix("file://"): example["detail"]
        for example in done.examples
        if example["rule"] == "archive_file"
    }
    assert "is missing" in told[str(lost)]
    assert "cannot be read" in told[str(damaged)]


def test_pruned_and_deleted_rows_are_not_faults(log, context, archive, tmp_path):
    log.http.delete("/v1/stream/orders/0").raise_for_status()
    floor = log.rows(kind="event")[9]["committed_id"]
    log.http.post("/v1/prune", json={"floors": {"room-0": floor}}).raise_for_status()
    done = audit(log.url, tmp_path / "audit", archive=str(archive))
    assert (done.found, done.archived) == ({}, 140)


def test_a_sample_checks_fewer_hashes_and_everything_else(server, log, context, tmp_path):
    log.submit("room", [{"n": n} for n in range(20)])
    with opened(server) as store:
        store.change_state(EVENT_IDS, "tests-room-5", digest=bytes(32))
        store.forget_state(EVENT_IDS, "tests-room-6")
    assert audit(log.url, tmp_path / "audit", sample=0).found == {"unknown_id": 1}
    assert audit(log.url, tmp_path / "audit").found == {"unknown_id": 1, "hash": 1}


def test_an_empty_log_has_no_faults(log, context, tmp_path):
    assert audit(log.url, tmp_path / "audit").faults == 0


def test_ranges_that_were_examined_are_not_examined_again(log, context, tmp_path, monkeypatch):
    """A killed audit leaves its plan and the ranges that it had finished."""
    log.fill()
    folder = tmp_path / "audit"
    monkeypatch.setattr(shutil, "rmtree", lambda *arguments, **options: None)
    first = audit(log.url, folder)
    monkeypatch.undo()
    log.append("later", [1, 2, 3])
    (span,) = (folder / "findings" / "spans").iterdir()
    facts = json.loads(span.read_text())
    span.write_text(json.dumps(facts | {"rows": facts["rows"] + 1_000}))
    again = audit(log.url, folder)
    assert (again.rows, again.committed_id) == (first.rows + 1_000, first.committed_id)
    assert audit(log.url, folder).rows == first.rows + 3


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_continues_after_a_kill_and_exits_with_1_if_there_are_faults(spark, server, log, pipeline):
    rows = log.fill()
    findings = pipeline.directory / "mainstem-pipeline" / "audit" / "findings"
    running = pipeline.spawn("audit", "--url", log.url)
    kill_when(running, (findings / "plan.json").exists)
    done = audit(log.url, findings.parent)
    assert (done.found, done.rows) == ({}, rows)
    assert not findings.exists()
    with opened(server) as store:
        store.remove(store.appends_to("orders/1")[4])
    done = pipeline("audit", "--url", server.url, "--json")
    assert (done.code, done.errors) == (1, "")
    assert done.summary["found"] == {"offset": 1, "stream": 1}


@pytest.mark.slow
@pytest.mark.parametrize("job", [("audit",), ("rollup", "--into", "rolled")], ids=["audit", "rollup"])
def test_a_refused_token_is_reported_in_one_line(start_server, pipeline, tmp_path, job):
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 48)
    server = start_server("--jwt-secret-file", str(secret))
    done = pipeline(*job, "--url", server.url, "--token", "wrong")
    assert (done.code, done.text) == (4, "")
    assert done.errors.startswith("mainstem: ")
    assert done.errors.count("\n") == 1
    assert "token" in done.errors
