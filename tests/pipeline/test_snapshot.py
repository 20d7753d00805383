"""The snapshot job: what it stores, and that a snapshot plus the rest of the log equals the whole history."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from mainstem import limits
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, make_snapshot
from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
from mainstem.pipeline.jobs.targets import TargetSelector
from tests.pipeline.replays import fold, random_history, random_message
from tests.support.waits import eventually

LWW = make_reducer("lww", ["k"], "v")


@pytest.fixture(scope="module", autouse=True)
def own_reducers(spark) -> None:
    """The reducers in a file that Spark copies to its workers."""
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("own_reducers.py")))


REDUCERS = {
    "lww": lambda: LWW,
    "state": lambda: make_reducer("state"),
    "tree": lambda: make_reducer("tree"),
    "function": lambda: make_reducer("own_reducers:collect"),
}


def take(context, reducer, *, partitions=(), streams=(), **options):
    return run_once(
        make_snapshot(SnapshotOptions(TargetSelector(tuple(partitions), tuple(streams)), reducer, **options)), context
    )


def of_partition(log, name):
    reply = log.http.get(f"/v1/snapshot/{name}")
    return reply.json() if reply.status_code == 200 else None


def of_stream(log, path):
    reply = log.http.get(f"/v1/stream-snapshot/{path}")
    return reply.json() if reply.status_code == 200 else None


def test_last_writer_wins_by_key(context, log):
    log.submit("room", [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}, {"k": "b", "v": None}, {"x": 1}])
    log.submit("other", [{"k": "a", "v": 9}])
    log.append("orders/1", [{"k": "a", "v": {"deep": [1.0]}}, {"k": 7, "v": True}])
    log.append("logs/1", [{"k": "a", "v": 1}])
    done = take(context, LWW, partitions=["r*"], streams=["orders/**"])
    assert (done.partitions, done.streams, done.rows, done.ignored, done.faults) == (1, 1, 7, 1, 0)
    found = of_partition(log, "room")
    assert (found["state"], found["committed_id"]) == ({"a": 3}, log.head()["head"])
    assert of_partition(log, "other") is None
    assert of_stream(log, "orders/1")["state"] == {"7": True, "a": {"deep": [1.0]}}
    assert of_stream(log, "logs/1") is None


def test_values_are_kept_byte_for_byte(context, log):
    body = b'{"k":"\\u00e9","v":{"big":12345678901234567890123,"b":1.0,"a":1e2,"s":"\\ud83d\\ude00"}}'
    log.create("s")
    headers = {"Content-Type": "application/json"}
    log.http.post("/v1/stream/s", headers=headers, content=body).raise_for_status()
    take(context, LWW, streams=["s"])
    text = log.http.get("/v1/stream-snapshot/s").text
    assert '{"é":{"big":12345678901234567890123,"b":1.0,"a":1e2,"s":"\\ud83d\\ude00"}}' in text


def test_a_round_folds_only_new_rows_onto_the_last_snapshot(context, log):
    log.submit("room", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    log.submit("idle", [{"k": "a", "v": 1}])
    take(context, LWW, partitions=["**"])
    before = of_partition(log, "idle")
    log.submit("room", [{"k": "a", "v": None}, {"k": "c", "v": 3}], client="second")
    done = take(context, LWW, partitions=["**"])
    assert (done.rows, done.partitions) == (2, 1)
    assert of_partition(log, "room")["state"] == {"b": 2, "c": 3}
    assert of_partition(log, "idle") == before
    assert take(context, LWW, partitions=["**"]).rows == 0


def test_the_offset_of_a_stream_snapshot_is_where_reading_continues(context, log):
    log.append("s", [{"k": "a", "v": 1}, {"k": "b", "v": 2}], at_once=2)
    take(context, LWW, streams=["s"])
    log.append("s", [{"k": "c", "v": 3}])
    found = of_stream(log, "s")
    tail = log.http.get("/v1/stream/s", params={"offset": found["offset"]}).json()
    assert (found["state"], tail) == ({"a": 1, "b": 2}, [{"k": "c", "v": 3}])


def test_a_stream_that_was_created_again_is_folded_from_its_new_beginning(context, log):
    log.append("s", [{"k": "old", "v": 1}])
    take(context, LWW, streams=["s"])
    log.append("s", [{"k": "older", "v": 1}])
    log.http.delete("/v1/stream/s").raise_for_status()
    log.append("s", [{"k": "new", "v": 1}])
    done = take(context, LWW, streams=["s"])
    assert of_stream(log, "s")["state"] == {"new": 1}
    log.http.delete("/v1/stream/s").raise_for_status()
    assert (done.faults, take(context, LWW, streams=["s"]).faults) == (0, 0)


@pytest.mark.parametrize("name", ["lww", "function"])
def test_the_state_of_a_fork_includes_the_messages_of_its_source(context, log, name):
    reducer = REDUCERS[name]()
    log.append("source", [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "c", "v": 3}])
    log.http.put("/v1/stream/fork", headers={"Stream-Forked-From": "/v1/stream/source"}).raise_for_status()
    log.append("source", [{"k": "a", "v": "of the source alone"}])
    headers = {"Content-Type": "application/json"}
    log.http.post("/v1/stream/fork", headers=headers, json=[{"k": "b", "v": 4}]).raise_for_status()
    take(context, reducer, streams=["fork"])
    expected: Any = {"a": 1, "b": 4, "c": 3} if name == "lww" else [1, 2, 3, 4]
    assert of_stream(log, "fork")["state"] == expected
    log.http.post("/v1/stream/fork", headers=headers, json=[{"k": "d", "v": 5}]).raise_for_status()
    take(context, reducer, streams=["fork"])
    assert of_stream(log, "fork")["state"] == (expected | {"d": 5} if name == "lww" else [*expected, 5])


def test_a_newer_snapshot_of_another_client_is_kept(context, log):
    log.submit("room", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    head = log.head()["head"]
    log.http.put("/v1/snapshot/room", json={"committed_id": head, "state": {"mine": 1}}).raise_for_status()
    assert take(context, LWW, partitions=["room"]).unchanged == 1
    log.submit("room", [{"k": "c", "v": 3}], client="later")
    take(context, LWW, partitions=["room"])
    assert of_partition(log, "room")["state"] == {"mine": 1, "c": 3}


def test_a_target_that_cannot_be_folded_is_a_fault_and_the_others_continue(context, log, monkeypatch):
    log.submit("good", [{"k": "a", "v": 1}])
    log.submit("bad", [{"k": "a", "v": 1}])
    log.http.put("/v1/snapshot/bad", json={"committed_id": 0, "state": [1]}).raise_for_status()
    done = take(context, LWW, partitions=["**"])
    assert (done.partitions, done.faults) == (1, 1)
    assert done.problems[0].startswith("partition bad: its present snapshot was not made by the reducer lww")
    assert of_partition(log, "good")["state"] == {"a": 1}
    # The job retries it: once it can be folded, nothing of it is missing.
    log.submit("bad", [{"k": "b", "v": 2}], client="later")
    assert take(context, LWW, partitions=["**"]).faults == 1
    log.http.put("/v1/snapshot/bad", json={"committed_id": 0, "state": {}}).raise_for_status()
    assert take(context, LWW, partitions=["**"]).faults == 0
    assert of_partition(log, "bad")["state"] == {"a": 1, "b": 2}


def test_a_state_that_is_too_large_is_a_fault(context, log):
    log.submit("small", [{"k": "a", "v": 1}])
    piece = "x" * 900_000
    log.append("large", [{"k": n, "v": piece} for n in range(limits.SNAPSHOT_BYTES_MAX // len(piece) + 1)], at_once=5)
    done = take(context, LWW, partitions=["**"], streams=["**"])
    assert (done.faults, done.partitions, done.streams) == (1, 1, 0)
    assert "the limit of a snapshot is" in done.problems[0]
    assert of_stream(log, "large") is None


def test_a_history_that_was_pruned_without_a_snapshot_is_a_fault(context, log):
    log.submit("room", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    first = log.rows(partition="room")[0]["committed_id"]
    log.http.post("/v1/prune", json={"floors": {"room": first}}).raise_for_status()
    log.append("s", [{"k": "a", "v": 1}, {"k": "b", "v": 2}], at_once=1)
    offset = log.rows(stream="s")[1]["offset"]
    log.http.post("/v1/prune", json={"streams": {"s": offset}}).raise_for_status()
    eventually(
        lambda: len(log.rows(stream="s")) + len(log.rows(partition="room")) == 2
    )  # the server erases in the background
    done = take(context, LWW, partitions=["**"], streams=["**"])
    assert (done.faults, done.partitions, done.streams) == (2, 0, 0)
    assert all("--partial" in problem for problem in done.problems)
    done = take(context, LWW, partitions=["**"], streams=["**"], partial=True)
    assert (done.faults, done.partitions, done.streams) == (0, 1, 1)
    assert of_stream(log, "s")["state"] == {"b": 2}


def test_a_history_that_a_snapshot_covers_may_be_pruned(context, log):
    log.submit("room", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    log.append("s", [{"k": "a", "v": 1}, {"k": "b", "v": 2}], at_once=1)
    take(context, LWW, partitions=["**"], streams=["**"])
    floors = {"room": of_partition(log, "room")["committed_id"]}
    streams = {"s": of_stream(log, "s")["offset"]}
    log.http.post("/v1/prune", json={"floors": floors, "streams": streams}).raise_for_status()
    log.submit("room", [{"k": "a", "v": 3}], client="later")
    log.append("s", [{"k": "a", "v": 3}])
    assert take(context, LWW, partitions=["**"], streams=["**"]).faults == 0
    assert of_partition(log, "room")["state"] == of_stream(log, "s")["state"] == {"a": 3, "b": 2}


def test_a_dry_run_stores_nothing_and_does_not_advance(context, log):
    log.submit("room", [{"k": "a", "v": 1}])
    context.dry_run = True
    done = take(context, LWW, partitions=["**"])
    assert (done.partitions, done.rows, done.bytes, done.dry_run) == (1, 1, len('{"a":1}'), True)
    assert of_partition(log, "room") is None
    context.dry_run = False
    assert take(context, LWW, partitions=["**"]).partitions == 1


def test_a_function_receives_all_fields_of_a_message(context, log):
    log.submit(["room", "also"], [{"k": "a"}], client="ada")
    log.append("s", [{"n": 1}, {"n": 2}], at_once=2)
    take(context, make_reducer("own_reducers:describe"), partitions=["room"], streams=["s"])
    [event] = of_partition(log, "room")["state"]
    assert event[:5] == ["ada-room-0", "ada", ["also", "room"], None, {"k": "a"}]
    assert event[5].endswith("+00:00")
    messages = of_stream(log, "s")["state"]
    assert [(message[3], message[4], message[6]) for message in messages] == [("s", {"n": 1}, 0), ("s", {"n": 2}, 1)]


def test_a_function_that_fails_is_a_fault_of_its_target_only(context, log):
    log.submit("good", [{"v": 1}])
    log.submit("bad", [{"v": "bad"}])
    done = take(context, make_reducer("own_reducers:fail"), partitions=["**"])
    assert (done.partitions, done.faults) == (1, 1)
    assert "no such thing" in done.problems[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUCERS)
def test_snapshot_and_later_messages_equal_the_whole_history(context, log, name):
    """After each round of a random history, every snapshot plus the later messages equals a full replay."""
    reducer, chance = REDUCERS[name](), random.Random(f"snapshots {name}")
    partitions, streams = ["p-1", "p-2", "q"], ["s/1", "s/2", "t"]
    for target in streams:
        log.append(target, [random_message(chance, name)])
    log.submit(partitions, [random_message(chance, name)])
    for round_ in range(3):
        random_history(log, chance, name, partitions, streams, messages=60, client=f"{name}-{round_}")
        done = take(context, reducer, partitions=["p-*"], streams=["s/*"])
        assert done.faults == 0
        random_history(log, chance, name, partitions, streams, messages=15, client=f"{name}-{round_}-tail")
        for partition in partitions[:2]:
            rows = log.rows(partition=partition)
            found = of_partition(log, partition)
            tail = [row for row in rows if row["committed_id"] > found["committed_id"]]
            assert fold(reducer, tail, found["state"]) == fold(reducer, rows)
            assert {row["committed_id"] for row in rows} != {row["committed_id"] for row in tail}
        for stream in streams[:2]:
            rows = log.rows(stream=stream)
            found = of_stream(log, stream)
            tail = [row for row in rows if row["offset"] >= found["offset"]]
            assert fold(reducer, tail, found["state"]) == fold(reducer, rows)
            assert len(tail) < len(rows)
    assert of_partition(log, "q") is None
    assert of_stream(log, "t") is None


def test_random_messages_are_mostly_understood():
    """The histories above would prove little if the reducers ignored most messages."""
    for name, make in REDUCERS.items():
        chance = random.Random(1)
        rows = [{"committed_id": n, "data": json.dumps(random_message(chance, name))} for n in range(300)]
        assert fold(make(), rows) not in ({}, None, [])
