"""The retain job: what it prunes, and that it never prunes what a policy keeps."""

import datetime
import random
import time

import pytest

from mainstem import limits
from mainstem.errors import BadPolicy
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.retain.ages import find_older
from mainstem.pipeline.jobs.retain.floors import Record, find_floor
from mainstem.pipeline.jobs.retain.job import RetainOptions, make_retain
from mainstem.pipeline.jobs.retain.policies import parse_policies
from mainstem.pipeline.jobs.runner import run_once
from tests.support.waits import eventually

JSON = {"Content-Type": "application/json"}


def retain(context, text, *, now_s=None, dry_run=False):
    context.dry_run = dry_run
    clock = None if now_s is None else (lambda: int(now_s * 1_000_000))
    return run_once(make_retain(RetainOptions(parse_policies(text), clock)), context)


def ids(log, **query):
    return [row["committed_id"] for row in log.rows(**query)]


def floor_of(log, name):
    return int(log.http.head(f"/v1/snapshot/{name}").headers["partition-floor"])


def begins(log, path):
    return log.http.head(f"/v1/stream-snapshot/{path}").headers["stream-earliest-offset"]


def test_events_are_erased_once_every_partition_has_pruned_them(context, log):
    log.submit(["room-1", "kept"], [{"n": n} for n in range(3)])
    log.submit(["room-1", "room-2"], [{"n": n} for n in range(4)], client="both")
    log.submit("room-1", [{"n": n} for n in range(3)], client="alone")
    before = ids(log)
    policy = '[[policy]]\npartitions = "room-*"\nmax_events = 2'
    told = retain(context, policy, dry_run=True)
    assert (told.partitions, told.given_up, told.erased) == (2, 8 + 2, 2 + 1)
    by_name = {target["name"]: target for target in told.targets}
    assert {name: target["messages"] for name, target in by_name.items()} == {"room-1": 8, "room-2": 2}
    assert told.given_up_bytes == sum(target["bytes"] for target in told.targets) == 10 * len('{"n": 0}')
    assert ids(log) == before
    assert floor_of(log, "room-1") == 0
    done = retain(context, policy)
    assert (done.partitions, done.given_up, done.policies, done.faults) == (2, 10, {"policy 1": 10}, 0)
    # room-2 keeps two of the events that it shares with room-1, and `kept` has no policy.
    eventually(lambda: ids(log) == before[:3] + before[5:7] + before[8:])
    assert (floor_of(log, "room-1"), floor_of(log, "room-2"), floor_of(log, "kept")) == (before[7], before[4], 0)
    again = retain(context, policy)
    assert (again.partitions, again.given_up) == (0, 0)


def test_the_id_of_a_pruned_event_is_still_known(context, log, open_log):
    log.submit("room", [{"n": n} for n in range(5)])
    first = log.rows(partition="room")
    assert retain(context, '[[policy]]\npartitions = "**"\nmax_events = 1').given_up == 4
    eventually(lambda: ids(log) == [first[-1]["committed_id"]])
    head = log.head()["head"]
    log.submit("room", [{"n": n} for n in range(5)])  # the same ids and contents
    assert (log.head()["head"], ids(log)) == (head, [first[-1]["committed_id"]])
    with pytest.raises(AssertionError, match="committed with different content"):
        log.submit("room", [{"n": "other"}])


def test_streams_prune_whole_appends_and_keep_the_newest(context, log):
    log.append("logs/a", list(range(10)), at_once=3)
    log.append("logs/b", [0, 1], at_once=2)
    log.append("other", list(range(10)), at_once=1)
    done = retain(context, '[[policy]]\nstreams = "logs/**"\nmax_events = 5')
    assert (done.streams, done.given_up) == (1, 6)
    assert log.read("logs/a") == [6, 7, 8, 9]
    assert log.read("logs/b") == [0, 1]
    assert log.read("other") == list(range(10))
    eventually(lambda: len(log.rows(stream="logs/a")) == 4)
    retain(context, '[[policy]]\nstreams = "**"\nmax_bytes = 1')
    assert (log.read("logs/a"), log.read("logs/b"), log.read("other")) == ([9], [0, 1], [9])


def test_age_counts_from_the_commit(context, log):
    log.submit("room", [{"n": 0}])
    log.append("s", [0])
    between = time.time()
    log.submit("room", [{"n": 1}], client="later")
    log.append("s", [1])
    policy = '[[policy]]\npartitions = "**"\nmax_age = "1h"\n[[policy]]\nstreams = "**"\nmax_age = "1h"'
    assert retain(context, policy).given_up == 0
    done = retain(context, policy, now_s=between + 3_600)
    assert (done.given_up, done.partitions, done.streams, done.given_up_bytes) == (2, 1, 1, None)
    assert log.read("s") == [1]
    eventually(lambda: len(log.rows(partition="room")) == 1)


def test_bytes_are_counted_from_the_messages(context, log):
    log.submit("room", [{"t": "x" * 92} for _ in range(10)])  # 100 bytes each
    assert retain(context, '[[policy]]\npartitions = "**"\nmax_bytes = "350B"').given_up == 7
    eventually(lambda: len(log.rows()) == 3)


def test_messages_that_no_snapshot_covers_stay(context, log):
    log.submit("room", [{"n": n} for n in range(4)])
    log.submit("bare", [{"n": n} for n in range(4)])
    log.append("s", list(range(4)), at_once=1)
    rows, stream = ids(log, partition="room"), log.rows(stream="s")
    log.http.put("/v1/snapshot/room", json={"committed_id": rows[1], "state": {}}).raise_for_status()
    body = {"committed_id": stream[2]["committed_id"], "offset": stream[3]["offset"], "state": {}}
    log.http.put("/v1/stream-snapshot/s", json=body).raise_for_status()
    policy = """
        [[policy]]
        partitions = "**"
        max_events = 1
        require_snapshot = true
        [[policy]]
        streams = "**"
        require_snapshot = true
    """
    done = retain(context, policy)
    assert (done.partitions, done.streams, done.given_up) == (1, 1, 2 + 3)
    eventually(lambda: ids(log, partition="room") == rows[2:])
    assert len(ids(log, partition="bare")) == 4
    assert log.read("s") == [3]


def test_rows_that_are_not_archived_stay(context, log, tmp_path):
    table = tmp_path / "lake"
    policy = f'[[policy]]\npartitions = "**"\nmax_events = 1\nrequire_archive = "{table}"'
    log.submit("room", [{"n": n} for n in range(4)])
    with pytest.raises(BadPolicy, match="no archive"):
        retain(context, policy)
    context.dry_run = False
    run_once(make_archive(str(table)), context)
    log.submit("room", [{"n": n} for n in range(4)], client="later")
    rows = ids(log, partition="room")
    done = retain(context, policy)
    assert (done.given_up, done.archived) == (4, {str(table): rows[3]})
    eventually(lambda: ids(log, partition="room") == rows[4:])


def test_streams_that_forks_read_or_that_were_deleted_are_not_pruned(context, log):
    log.append("forked", list(range(5)), at_once=1)
    log.http.put("/v1/stream/fork", headers={"Stream-Forked-From": "/v1/stream/forked"}).raise_for_status()
    log.append("again", list(range(5)), at_once=1)
    log.http.delete("/v1/stream/again").raise_for_status()
    log.append("again", [10, 11], at_once=1)
    done = retain(context, '[[policy]]\nstreams = ["forked", "again"]\nmax_events = 1')
    assert (done.faults, done.streams, done.given_up, done.held) == (0, 1, 1, 1)
    assert log.read("forked") == log.read("fork") == list(range(5))
    assert log.read("again") == [11]


def test_a_dry_run_knows_forks_and_says_why_nothing_is_removed(context, log, tmp_path):
    table = tmp_path / "lake"
    log.append("a", [1])
    run_once(make_archive(str(table)), context)
    log.append("forked", list(range(5)), at_once=1)
    log.http.put("/v1/stream/fork", headers={"Stream-Forked-From": "/v1/stream/forked"}).raise_for_status()
    log.submit("room", [{"n": n} for n in range(3)])
    log.submit("bare", [{"n": n} for n in range(3)])
    log.append("late", list(range(3)), at_once=1)
    policy = f"""
        [[policy]]
        name = "forks"
        streams = "forked"
        max_age = "1s"
        [[policy]]
        name = "rooms"
        partitions = "room"
        max_events = 3
        [[policy]]
        name = "folded"
        partitions = "bare"
        require_snapshot = true
        [[policy]]
        name = "archived"
        streams = "late"
        max_events = 1
        require_archive = "{table}"
        [[policy]]
        name = "nothing"
        streams = "no/**"
        max_events = 1
    """
    later = time.time() + 60
    for told in (retain(context, policy, now_s=later, dry_run=dry) for dry in (True, False, True)):
        assert (told.given_up, told.streams, told.held, told.erased in (0, None)) == (0, 0, 1, True)
        assert told.kept == {
            "forks": "1 stream: held by forks",
            "rooms": "1 partition: nothing exceeds max_events = 3",
            "folded": "1 partition: no snapshot yet",
            "archived": f"1 stream: the archive reaches only committed id {told.archived[str(table)]}",
            "nothing": "matches no stream, or only those that an earlier policy matches",
        }
    assert told.read == 0  # the round before has counted the events


def test_a_round_reads_only_what_is_new_or_prunable(context, log, monkeypatch):
    monkeypatch.setattr(limits, "RETAIN_PAGE_BYTES", 500)
    policy = """
        [[policy]]
        partitions = "counted-*"
        max_events = 1_000
        [[policy]]
        partitions = "sized"
        max_bytes = "1MB"
        [[policy]]
        partitions = "aged"
        max_age = "1h"
        [[policy]]
        streams = "s/**"
        max_events = 900
        max_age = "1h"
    """
    for name in ("counted-1", "counted-2", "sized", "aged", "other"):
        log.submit(name, [{"n": n} for n in range(1_000)])
    log.append("s/1", list(range(1_000)), at_once=10)
    log.append("unrelated", list(range(5_000)), at_once=10)
    first = retain(context, policy)
    assert (first.given_up, first.streams) == (100, 1)
    assert 4_000 <= first.read < 5_000 + 500  # events are counted once; of the stream, only its beginning is read
    monkeypatch.setattr(type(context), "spark", property(lambda self: pytest.fail("Spark was started")))
    assert (again := retain(context, policy)).given_up == 0
    assert again.read == 0
    log.submit("counted-1", [{"n": 1}] * 3, client="later")
    log.append("unrelated", [1])
    monkeypatch.undo()
    monkeypatch.setattr(limits, "RETAIN_PAGE_BYTES", 500)
    third = retain(context, policy)
    assert (third.given_up, third.partitions) == (3, 1)
    assert third.read < 100


def test_a_floor_that_somebody_else_has_raised_is_counted_again(context, log):
    policy = '[[policy]]\npartitions = "room"\nmax_events = 5'
    log.submit("room", [{"n": n} for n in range(5)])
    assert retain(context, policy).given_up == 0
    rows = ids(log, partition="room")
    log.prune("room", rows[2])
    log.submit("room", [{"n": n} for n in range(3)], client="later")
    assert retain(context, policy).given_up == 0  # 2 + 3 are left; with the old count there would be 8
    log.submit("room", [{"n": 1}], client="last")
    assert retain(context, policy).given_up == 1
    eventually(lambda: len(ids(log, partition="room")) == 5)


def test_the_id_of_a_time_is_found_with_few_requests(context, log):
    for number in range(20):
        log.append("s", [number] * 3)
        log.create(f"empty/{number}")
    rows = log.rows()
    with context.open_client() as client:
        for row in rows[::7]:
            older = [one["committed_id"] for one in rows if one["committed_at"] < row["committed_at"]]
            assert find_older(client, micros(row["committed_at"]), log.head_id()) == max(older, default=0)
        assert find_older(client, micros(rows[-1]["committed_at"]) + 1, log.head_id()) == rows[-1]["committed_id"]


def test_an_empty_log_or_policies_that_keep_everything_need_no_spark(log, context, monkeypatch):
    assert retain(context, '[[policy]]\npartitions = "**"\nmax_events = 1').given_up == 0
    log.submit("room", [{"n": 1}])
    monkeypatch.setattr(type(context), "spark", property(lambda self: pytest.fail("Spark was started")))
    assert retain(context, '[[policy]]\npartitions = "**"\nkeep = true').given_up == 0


@pytest.mark.slow
def test_spark_finds_the_same_floors_as_the_rule(context, log):
    """With random histories and policies, the floors of the server equal `find_floor` for each target's records."""
    chance = random.Random("retention")
    partitions, streams = [f"p-{n}" for n in range(4)], [f"s/{n}" for n in range(3)]
    for number in range(40):
        some = [{"t": "x" * chance.randint(0, 30)} for _ in range(chance.randint(1, 4))]
        if chance.random() < 0.6:
            names = chance.sample(partitions, chance.randint(1, 3))
            log.submit(names, some, client=f"c{number}")
        else:
            log.append(chance.choice(streams), some, at_once=chance.randint(1, 3))
    rows = log.rows()
    times = sorted(micros(row["committed_at"]) for row in rows)
    now_s = chance.choice(times) / 1e6 + 60
    text = (
        "".join(
            f'[[policy]]\npartitions = "{name}"\n{bound}\n'
            for name, bound in zip(
                partitions,
                ["max_events = 5", 'max_age = "60s"', "max_bytes = 90", "max_events = 9\nmax_bytes = 200"],
                strict=True,
            )
        )
        + '[[policy]]\nstreams = "s/0"\nmax_age = "60s"\nmax_events = 6\n[[policy]]\nstreams = "s/*"\nmax_bytes = 60'
    )
    policies = parse_policies(text)
    assert retain(context, text, now_s=now_s).faults == 0
    for name in partitions:
        policy = policies.all[policies.find("partition", name) or 0]
        records = [kept(row) for row in rows if name in (row["partitions"] or [])]
        assert floor_of(log, name) == find_floor(policy, records, int(now_s * 1e6), 10**9), name
    for path in streams:
        policy = policies.all[policies.find("stream", path) or 0]
        by_id: dict[int, Record] = {}
        starts: dict[int, str] = {}
        for row in (row for row in rows if row["stream"] == path):
            one, new = by_id.get(row["committed_id"]), kept(row, comma=1)
            starts.setdefault(row["committed_id"], row["offset"])
            by_id[row["committed_id"]] = (
                new if one is None else one._replace(messages=one.messages + 1, size=one.size + new.size)
            )
        floor = find_floor(policy, by_id.values(), int(now_s * 1e6), 10**9)
        assert begins(log, path) == min(start for id_, start in starts.items() if id_ > floor), path


def micros(text):
    time_ = datetime.datetime.fromisoformat(text)
    return (time_ - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


def kept(row, comma=0):
    return Record(row["committed_id"], micros(row["committed_at"]), 1, len(row["data"].encode()) + comma)
