"""Counts per window, each written exactly once, compared with a plain count."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from mainstem import limits
from mainstem.errors import BadOption, HistoryLost
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.rollup import RollupOptions, RollupSummary, make_rollup
from mainstem.pipeline.jobs.runner import run_once
from mainstem.testing.server import ServerProcess
from tests.support.command_line import PipelineShell
from tests.support.kills import kill_when
from tests.support.log_client import LogClient
from tests.support.waits import eventually

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATE = timedelta(seconds=10)


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def messages(first: int, number: int, every_s: float = 7.0) -> list[dict]:
    """Return messages of three types, one every few seconds of event time."""
    return [{"n": n, "at": at(n * every_s), "type": f"t{n % 3}"} for n in range(first, first + number)]


def truth(sent: list[tuple[dict, tuple]]) -> Counter:
    """Return (window, key) -> messages, for the windows that the newest message has closed."""
    times = [datetime.fromisoformat(message["at"]) for message, _ in sent]
    passed = max(times) - LATE
    found: Counter = Counter()
    for (_, key), moment in zip(sent, times, strict=True):
        start = moment.replace(second=0, microsecond=0)
        if start + MINUTE <= passed:
            found[start, key] += 1
    return found


def written(log: LogClient, into: str, *by: str) -> list[tuple]:
    return [
        (
            (datetime.fromisoformat(row["window_start"]), tuple(row.get(name) for name in by)),
            row["messages"],
        )
        for row in log.read(into)
    ]


def roll(context: JobContext, **options) -> RollupSummary:
    done = run_once(make_rollup(RollupOptions(**{"into": "rolled", "time": "at", **options})), context)
    assert isinstance(done, RollupSummary)
    return done


def test_windows_are_counted_by_every_dimension(log, context):
    streams = {"a": messages(0, 60), "b": messages(0, 40)}
    for name, sent in streams.items():
        log.append(name, sent)
    events = messages(0, 50)
    log.submit(["p", "q"], events, client="phone")
    log.append_bytes("text", b"no JSON, so it has no time")
    done = roll(context, by=("stream", "partition", "client", "type"))
    expected = truth(
        [(message, (name, None, None, message["type"])) for name, sent in streams.items() for message in sent]
        + [(event, (None, partition, "phone", event["type"])) for event in events for partition in ("p", "q")]
    )
    rows = written(log, "rolled", "stream", "partition", "client", "type")
    assert dict(rows) == dict(expected)
    assert len(rows) == len(expected) == done.windows
    assert done.rows == 60 + 40 + 50 + 1
    assert done.open > 0


def test_bytes_are_counted_from_the_messages(log, context):
    log.append("a", messages(0, 30))
    roll(context)
    first = [row for row in log.rows(stream="a") if row["data"] and '"at": "2026-03-01T12:00' in row["data"]]
    (found,) = [row for row in log.read("rolled") if row["window_start"].startswith("2026-03-01T12:00")]
    assert found["bytes"] == sum(len(row["data"].encode()) for row in first)
    assert found["window_end"].startswith("2026-03-01T12:01")


def test_rounds_continue_where_the_last_one_ended_and_do_not_count_their_own_output(log, context):
    sent = []
    for first in range(0, 90, 30):
        part = messages(first, 30)
        log.append("a", part)
        sent += [(message, ("a",)) for message in part]
        done = roll(context, by=("stream",))
        rows = written(log, "rolled", "stream")
        assert dict(rows) == dict(truth(sent))
        assert len(rows) == len({key for key, _ in rows})
    assert roll(context, by=("stream",)).windows == 0
    assert done.rows >= 30


def test_reports_of_jobs_are_not_counted(log, context):
    report = {"job": "audit", "name": "x", "started_at": "2026-05-01T00:00:00Z", "duration_s": 1.0}
    log.http.post("/v1/jobs", json=report).raise_for_status()
    log.append("a", [{"started_at": "2026-05-01T00:00:30Z"}, {"started_at": "2026-05-01T01:00:00Z"}])
    assert len(log.rows(stream="_mainstem/jobs")) == 1
    roll(context, by=("stream",), time="started_at")
    assert [(row["stream"], row["messages"]) for row in log.read("rolled")] == [("a", 1)]


def test_a_run_that_died_while_its_first_batch_was_planned_can_be_repeated(log, context):
    """Spark writes its plan under a temporary name first, and dies before it renames the file."""
    log.append("a", messages(0, 30))
    offsets = context.checkpoint / "query" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.5c0d1f5e-unfinished.tmp").write_text("v1\n")
    assert roll(context).rows == 30


def test_late_rows_are_counted_as_late(log, context):
    log.append("a", messages(0, 60))
    before = roll(context).windows
    log.append("a", [{"at": at(0)}, {"at": at(1)}, {"at": at(60)}])
    done = roll(context)
    assert (done.late, done.windows) == (2, 0)  # of two windows
    assert len(log.read("rolled")) == before


def test_commit_times_are_the_default(log, context):
    log.append("a", [1, 2, 3])
    done = roll(context, time=None, window="1ms", late="0s", by=())
    log.append("b", [4])
    assert done.windows + roll(context, time=None, window="1ms", late="0s", by=()).windows >= 1
    assert log.read("rolled")[0]["messages"] == 3


def test_the_clock_closes_the_last_windows_of_a_quiet_log(log, context, monkeypatch):
    """By commit time: whatever comes later is counted in later windows, and nothing is lost or written twice."""
    monkeypatch.setattr(limits, "ROLLUP_IN_FLIGHT_S", 0.0)
    options = {"time": None, "window": "1s", "late": "0s", "by": ("stream",)}
    done = []

    def run_until_closed() -> bool:
        done.append(roll(context, **options))
        return done[-1].open == 0

    for number in (1, 2):
        log.append("a", [number] * 10)
        eventually(run_until_closed, within_s=60)
        assert sum(row["messages"] for row in log.read("rolled")) == 10 * number
    assert roll(context, **options).windows == 0
    starts = [row["window_start"] for row in log.read("rolled")]
    assert len(set(starts)) == len(starts) == sum(one.windows for one in done)
    assert not any(one.late for one in done)


def test_event_time_runs_on_with_the_clock(log, context, monkeypatch):
    """The newest event is from the past. Its window closes after as much time as if events had continued."""
    monkeypatch.setattr(limits, "ROLLUP_IN_FLIGHT_S", 0.0)
    options = {"window": "2s", "late": "1s", "by": ("stream",)}
    log.append("a", [{"at": at(0)}, {"at": at(0.5)}])
    first = roll(context, **options)
    assert (first.open, log.read("rolled")) == (1, [])
    eventually(lambda: roll(context, **options).open == 0, within_s=60)
    assert [(row["window_start"], row["messages"]) for row in log.read("rolled")] == [
        ("2026-03-01T12:00:00.000000Z", 2)
    ]
    log.append("a", [{"at": at(1)}])
    assert roll(context, **options).late == 1


def test_a_checkpoint_of_an_older_version_continues_without_the_clock(log, context):
    log.append("a", messages(0, 30))
    context.checkpoint.mkdir(parents=True)
    kept = msgspec.structs.asdict(RollupOptions("rolled", time="at"))
    (context.checkpoint / "rollup.json").write_bytes(msgspec.json.encode(kept))
    assert roll(context).open > 0
    [offsets] = {len(path.read_text().splitlines()) for path in (context.checkpoint / "query/offsets").glob("[0-9]*")}
    assert offsets == 3  # the version, the metadata, and one source


def test_pruning_before_counting_is_an_error_unless_it_is_accepted(log, context):
    log.submit("room", [{"at": at(0)}])
    roll(context)
    log.submit("room", [{"at": at(1)}], client="second")
    log.prune("room", log.rows()[-1]["committed_id"])
    log.submit("room", [{"at": at(2)}, {"at": at(90)}], client="third")
    with pytest.raises(HistoryLost, match="that are read were pruned"):
        roll(context)
    options = RollupOptions("rolled", time="at")
    assert run_once(make_rollup(options, accept_loss=True), context).rows == 2
    assert [row["messages"] for row in log.read("rolled")] == [2]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"window": "1 fortnight"}, "--window"),
        ({"window": "0s"}, "--window"),
        ({"late": "soon"}, "--lateness"),
        ({"by": ("stream", "colour")}, "--by"),
        ({"by": ("stream", "stream")}, "--by"),
        ({"into": "/bad//path"}, "--into"),
        ({"streams": "a", "partitions": "b"}, "--streams or --partitions"),
    ],
)
def test_invalid_options_are_refused_before_spark_starts(options, fault):
    with pytest.raises(BadOption, match=fault):
        make_rollup(RollupOptions(**{"into": "rolled", **options}))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_windows_are_written_once_whenever_the_job_is_killed(
    spark, log: LogClient, pipeline: PipelineShell, chance: random.Random
):
    """SIGKILL hits the whole process group at random times after a batch was planned, staged, and committed."""
    arguments = ["rollup", "--url", log.url, "--into", "rolled", "--time", "at", "--by", "stream,type"]
    query = pipeline.directory / "mainstem-pipeline" / "rollup" / "query"
    sent: list[tuple[dict, tuple]] = []

    def kill_after(point: str) -> None:
        before = set(query.glob(point))
        running = pipeline.spawn(*arguments)
        kill_when(running, lambda: set(query.glob(point)) - before, then_s=chance.uniform(0, 0.3), at_work=False)

    for first, point in enumerate(["offsets/*", "mainstem-sink/*/*/*", "commits/*"]):
        for name in ("a", "b"):
            part = messages(first * 200, 200, every_s=2.0)
            log.append(name, part)
            sent.extend((message, (name, message["type"])) for message in part)
        kill_after(point)
    roll(JobContext(ServerOptions(log.url), query.parent, master="local[2]"), by=("stream", "type"))
    rows = written(log, "rolled", "stream", "type")
    assert len(rows) == len(dict(rows)), "a window was written twice"
    assert dict(rows) == dict(truth(sent))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_job_waits_for_a_server_that_is_killed(server: ServerProcess, log: LogClient, pipeline: PipelineShell):
    sent = [(message, ("a",)) for message in messages(0, 400)]
    log.append("a", [message for message, _ in sent])
    running = pipeline.spawn("rollup", "--url", log.url, "--into", "rolled", "--time", "at", "--json")
    offsets = pipeline.directory / "mainstem-pipeline" / "rollup" / "query" / "offsets"
    eventually(offsets.exists, within_s=100, unless=lambda: running.ending)
    server.kill()
    server.start()
    done = running.wait()
    assert (done.code, done.complaints) == (0, "")
    rows = written(log, "rolled", "stream")
    assert len(rows) == len(dict(rows))
    assert dict(rows) == dict(truth(sent))
