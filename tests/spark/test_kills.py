"""kill -9 of the driver with its Java and workers, at the worst moments: every row still arrives exactly once."""

import json

import pytest

from tests.spark.drivers import Driver, run
from tests.support.kills import kill_when

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROWS = 4_000
SMALL = {"stream": "out", "chunkBytes": "200"}  # many appends per batch, so that a kill can hit between them


@pytest.fixture
def log(start_server, open_log):
    log = open_log(start_server().url)
    log.append("in", [{"n": number} for number in range(ROWS)], at_once=500)
    return log


@pytest.fixture
def plan(log, tmp_path):
    """Return the plan of the same query, with changes."""

    def make(writing, **changes):
        fixed = {"url": log.url, "checkpoint": str(tmp_path / "checkpoint"), "work": str(tmp_path / "work")}
        fixed["reading"] = {"minPartitions": "4"}
        return fixed | {"writing": writing} | changes

    return make


@pytest.fixture
def drive():
    """Starts a driver in a separate process."""
    drivers = []

    def start(plan):
        drivers.append(Driver(plan))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def assert_once(found):
    assert sorted(found) == list(range(ROWS))


def numbers(log):
    return [row["n"] for row in log.read("out")]


def test_killed_while_tasks_write(spark, log, plan, drive, tmp_path):
    """One task has staged its rows, the others are running: nothing was sent, and the next run starts from scratch."""
    gate, reached = tmp_path / "gate", tmp_path / "gate.reached"
    gate.touch()
    kill_when(
        drive(plan(SMALL, gate=str(gate))),
        lambda: reached.exists() and any((tmp_path / "checkpoint").rglob("*.frames")),
    )
    assert numbers(log) == []
    run(spark, plan(SMALL, reading={"minPartitions": "3"}))
    assert_once(numbers(log))


def test_killed_in_commit_and_replayed_with_another_layout_and_order(spark, log, plan, drive):
    """Some chunks are in the stream when the driver dies. The replay has other tasks, with rows in another order."""
    before = log.head_id()
    kill_when(drive(plan(SMALL)), lambda: log.head_id() > before + 20)
    sent = numbers(log)
    assert 0 < len(sent) < ROWS
    run(spark, plan(SMALL, reading={"minPartitions": "7"}, turned=True))
    assert numbers(log)[: len(sent)] == sent
    assert_once(numbers(log))


def test_killed_between_the_sinks_commit_and_sparks(spark, log, plan, tmp_path):
    """Spark has not recorded that the batch is done, so it repeats it, with another layout and more chunks."""
    run(spark, plan(SMALL | {"chunkBytes": "100000"}))
    (note,) = (tmp_path / "checkpoint" / "commits").glob("[0-9]*")
    note.unlink()
    note.with_name(f".{note.name}.crc").unlink()
    run(spark, plan(SMALL, reading={"minPartitions": "6"}, turned=True))
    assert_once(numbers(log))


def test_a_kill_while_events_are_submitted_stores_each_event_once(spark, log, plan, drive):
    before = log.head_id()
    kill_when(drive(plan({"partitions": "room"})), lambda: log.head_id() > before + 150)
    assert log.head_id() < before + ROWS
    run(spark, plan({"partitions": "room"}, reading={"minPartitions": "5"}, turned=True))
    rows = log.rows(partition="room", max_bytes=60_000_000)
    assert_once([json.loads(row["data"])["n"] for row in rows])
