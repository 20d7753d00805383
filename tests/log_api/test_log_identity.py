"""The identity of a log across restarts, backups and restores, and what was pruned of a selection, on real servers."""

import json
from pathlib import Path

import apsw
import pytest

from mainstem.log.identity import IDENTITY
from mainstem.log.store.sqlite.checksums import use_checksums
from mainstem.log.store.sqlite.connections import STORE_NAME
from tests.support.waits import eventually


def identify(log):
    about = log.head()
    return about["log"], about["epoch"], [(epoch["after"], epoch["name"]) for epoch in about["epochs"]]


def forget_identity(file: Path) -> None:
    """Make a store one of an older version."""
    use_checksums()
    db = apsw.Connection(str(file))
    db.execute("DELETE FROM states WHERE space = ?", (IDENTITY.number,))
    db.close()


def test_a_log_keeps_its_id_across_restarts_and_kills_and_no_two_logs_share_one(start_on_fixed_port, open_log, shell):
    server, other = start_on_fixed_port(), start_on_fixed_port()
    log = open_log(server.url)
    first = identify(log)
    assert first[1:] == ("0", [(0, "0")])
    assert identify(open_log(other.url))[0] != first[0]
    server.kill()  # right after its first start
    server.start()
    assert identify(log) == first
    log.append("a", [1, 2])
    server.terminate()
    server.start()
    assert identify(log) == first
    shown = shell.use(server.url).ok("log", "head")
    assert f"log     {first[0]}" in shown
    assert json.loads(shell.ok("log", "head", "--json")) | {"now": None} == log.head() | {"now": None}


def test_a_log_in_memory_is_another_one_after_a_restart(start_on_fixed_port, open_log):
    server = start_on_fixed_port("--store", "memory")
    log = open_log(server.url)
    first = identify(log)
    server.kill()
    server.start()
    assert identify(log)[0] != first[0]


def test_a_store_of_an_older_version_gets_an_id_at_its_next_start(start_on_fixed_port, open_log, shell):
    server = start_on_fixed_port()
    log = open_log(server.url)
    log.submit("room", [{"n": 1}, {"n": 2}])
    log.prune("room", 1)
    before = identify(log)
    server.terminate()
    forget_identity(server.data / STORE_NAME)
    assert "no faults" in shell.ok("check", "--data", str(server.data))
    server.start()
    made = identify(log)
    assert made[0] not in (None, before[0])
    assert log.head(stream="a/*")["pruned"] == 1  # nobody noted what it belonged to
    server.kill()
    server.start()
    assert identify(log) == made


def test_a_restored_log_keeps_its_id_and_every_restore_begins_an_epoch_of_its_own(
    start_on_fixed_port, start_server, open_log, shell
):
    server = start_on_fixed_port()
    log = open_log(server.url)
    log.append("a", [1, 2, 3], at_once=1)
    first, point = identify(log), log.head_id()
    copied = json.loads(shell.ok("backup", "copy.db", "--data", str(server.data), "--json"))
    assert (copied["log"], copied["epoch"], copied["head"]) == (first[0], "0", point)
    log.append("a", [4])
    assert identify(log) == first  # a backup changes nothing
    epochs = []
    for folder in ("one", "two"):
        done = json.loads(shell.ok("restore", "copy.db", "--data", folder, "--json"))
        restored = open_log(start_server(data=shell.directory / folder).url)
        restored.append("b", [5])
        found = identify(restored)
        assert found == (first[0], done["epoch"], [(0, "0"), (point, done["epoch"])])
        epochs.append(done["epoch"])
        assert "no faults" in shell.ok("check", "--data", folder)
    assert len({*epochs, "0"}) == 3
    shell.ok("backup", "again.db", "--data", "two")
    done = json.loads(shell.ok("restore", "again.db", "--data", "three", "--json"))
    found = identify(open_log(start_server(data=shell.directory / "three").url))
    assert found == (first[0], done["epoch"], [(0, "0"), (point, epochs[1]), (done["head"], done["epoch"])])
    assert done["epoch"].startswith("2-")


def test_a_backup_of_an_older_version_becomes_a_log_of_its_own(start_on_fixed_port, start_server, open_log, shell):
    server = start_on_fixed_port()
    open_log(server.url).append("a", [1])
    shell.ok("backup", "copy.db", "--data", str(server.data))
    forget_identity(shell.directory / "copy.db")
    assert "log" not in json.loads(shell.ok("restore", "copy.db", "--data", "one", "--json"))
    restored = identify(open_log(start_server(data=shell.directory / "one").url))
    assert restored[0] not in (None, identify(open_log(server.url))[0])


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_the_head_reports_what_was_pruned_of_the_selected_streams_and_partitions(start_server, open_log, store):
    log = open_log(start_server("--store", store).url)
    for path in ("a/x", "a/y", "b/x"):
        log.create(path, **{"Stream-Retention": "max-messages=1"})
    trimmed = {}
    for path in ("a/x", "b/x"):
        log.http.post(f"/v1/stream/{path}", json=[1]).raise_for_status()
        trimmed[path] = log.head_id()
        log.http.post(f"/v1/stream/{path}", json=[2]).raise_for_status()
        eventually(lambda path=path: log.head()["pruned"] == trimmed[path])
    log.submit("room", [{"n": 1}])
    event = log.head_id()
    log.prune("room", event)

    def pruned(**query):
        return log.head(**query)["pruned"]

    assert pruned() == event
    assert pruned(stream="a/x") == pruned(stream="a/*") == pruned(prefix="a/") == trimmed["a/x"]
    assert pruned(stream=["a/x", "b/*"]) == pruned(kind="stream") == trimmed["b/x"]
    assert (pruned(stream="a/y"), pruned(partition="other")) == (0, 0)
    assert pruned(partition="room") == pruned(kind="event") == event
    log.http.delete("/v1/stream/b/x").raise_for_status()
    assert (pruned(stream="b/x"), pruned(kind="stream")) == (0, trimmed["a/x"])


@pytest.mark.parametrize("query", ["after=1", "kind=all", "stream=a&partition=b", "kind=event&prefix=a", "stream=/a"])
def test_invalid_filters_of_the_head_are_refused(start_server, open_log, query):
    response = open_log(start_server("--store", "memory").url).http.get(f"/v1/log/head?{query}")
    assert (response.status_code, response.json()["code"]) in [(400, "invalid_query"), (400, "bad_request")]
