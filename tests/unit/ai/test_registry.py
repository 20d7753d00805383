import pytest

from mainstem import limits
from mainstem.ai.registry import (
    Ended,
    Heartbeat,
    Registry,
    Running,
    RunRecord,
    Started,
    Stopped,
    decode_entry,
    divide,
    encode_entry,
)
from mainstem.client.core.strict_json import encode_json

HEARTBEATS = limits.RUN_HEARTBEATS_MISSED_MAX + 1


def record(run_id: str = "a", token: str = "1", worker: str = "w") -> RunRecord:
    return RunRecord(id=run_id, stream=run_id, token=token, worker=worker)


def beat(registry: Registry, *runs: RunRecord, worker: str = "w") -> None:
    """Apply the heartbeat of a worker, and the list of its runs in parts of one."""
    registry.apply(Heartbeat(worker))
    for run in runs:
        registry.apply(Running(worker, (run,)))
    registry.apply(Running(worker, last=True))


@pytest.fixture
def registry() -> Registry:
    return Registry("me")


def test_of_two_starts_with_one_id_the_first_wins(registry):
    registry.apply(Started(record(token="1")))
    registry.apply(Started(record(token="2")))
    assert registry.active["a"].token == "1"


def test_an_id_is_free_again_after_the_end(registry):
    registry.apply(Started(record(token="1")))
    registry.apply(Ended("a", "1", "finished"))
    assert registry.find("a").status == "finished"
    registry.apply(Started(record(token="2")))
    assert registry.find("a").token == "2"


def test_a_stop_concerns_the_start_that_it_names(registry):
    registry.apply(Started(record(token="2")))
    registry.apply(Stopped("a", "1", "too late"))
    assert registry.active["a"].status == "running"
    registry.apply(Stopped("a", "2", "enough"))
    assert (registry.active["a"].status, registry.active["a"].reason) == ("stopping", "enough")
    registry.apply(Stopped("missing", "2"))
    assert list(registry.active) == ["a"]


def test_an_end_for_an_earlier_start_changes_nothing(registry):
    registry.apply(Started(record(token="2")))
    registry.apply(Ended("a", "1", "lost"))
    assert registry.active["a"].token == "2"


def test_runs_of_a_silent_worker_are_lost_while_this_one_is_heard(registry):
    registry.apply(Started(record("a", worker="silent")))
    registry.apply(Started(record("b", "2", worker="me")))
    registry.apply(Started(record("c", "3", worker="alive")))
    for _ in range(HEARTBEATS):
        assert registry.find_lost() == []
        registry.apply(Heartbeat("alive"))
        registry.apply(Heartbeat("me"))
    assert [run.id for run in registry.find_lost()] == ["a"]


def test_nobody_is_lost_while_the_server_was_away(registry):
    """The first heartbeat after it is that of this process, however long that took."""
    registry.apply(Started(record("a", worker="other")))
    for _ in range(10):
        registry.apply(Heartbeat("other"))
        for _ in range(HEARTBEATS - 1):
            registry.apply(Heartbeat("me"))
        assert registry.find_lost() == []


def test_a_worker_that_is_heard_again_is_not_lost(registry):
    registry.apply(Started(record("a", worker="slow")))
    for _ in range(HEARTBEATS):
        registry.apply(Heartbeat("me"))
    registry.apply(Started(record("b", "2", worker="slow")))
    assert registry.find_lost() == []


def test_a_heartbeat_counts_once_however_many_runs_follow_it(registry):
    registry.apply(Started(record(worker="other")))
    for _ in range(HEARTBEATS - 1):
        beat(registry, *(record(f"b{number}", f"b{number}") for number in range(10)), worker="me")
    assert registry.find_lost() == []
    beat(registry, worker="me")
    assert [run.id for run in registry.find_lost()] == ["a"]


def test_a_list_of_runs_brings_back_those_whose_start_was_trimmed(registry):
    registry.apply(Running("w", (record(),)))
    assert registry.active["a"].worker == "w"


def test_a_list_of_runs_does_not_revive_one_that_has_ended(registry):
    registry.apply(Started(record()))
    registry.apply(Ended("a", "1", "stopped"))
    beat(registry, record())
    assert not registry.active
    assert registry.find("a").status == "stopped"


def test_a_list_of_runs_does_not_revive_one_of_which_only_the_end_is_left(registry):
    """The stream was trimmed up to the end; the list was sent before the end, and arrived after it."""
    registry.apply(Ended("a", "1", "stopped"))
    beat(registry, record())
    assert not registry.active
    registry.apply(Started(record(token="2")))
    assert registry.find("a").token == "2"


def test_it_remembers_a_bounded_number_of_ends_of_unknown_runs(registry, monkeypatch):
    monkeypatch.setattr(limits, "RUNS_ENDED_MAX", 2)
    for name in "abc":
        registry.apply(Ended(name, name, "finished"))
    beat(registry, *(record(name, name) for name in "abc"))
    assert list(registry.active) == ["a"]


def test_a_run_that_its_worker_leaves_out_twice_is_forgotten(registry):
    registry.apply(Started(record("goes on", "1")))
    registry.apply(Running("w", (record("ended", "2"),)))
    registry.apply(Started(record("other", "3", worker="another")))
    beat(registry, record("goes on", "1"))
    assert registry.look_up(record("ended", "2")).active
    registry.take_removed()
    beat(registry, record("goes on", "1"))
    assert sorted(registry.active) == ["goes on", "other"]
    assert (registry.look_up(record("ended", "2")).status, registry.take_removed()) == ("lost", ["2"])
    assert registry.take_removed() == []


def test_a_run_that_its_worker_lists_again_is_kept(registry):
    """It was started between the making of a list and its arrival."""
    registry.apply(Started(record()))
    for _ in range(5):
        beat(registry)
        beat(registry, record())
    assert registry.active["a"].status == "running"


def test_an_incomplete_list_of_runs_leaves_none_out(registry):
    registry.apply(Started(record()))
    registry.apply(Running("w", last=True))  # its heartbeat was trimmed
    for _ in range(5):
        registry.apply(Heartbeat("w"))  # the list could not be sent
    beat(registry)
    assert list(registry.active) == ["a"]


def test_this_process_knows_its_own_runs_best(registry):
    registry.apply(Started(record(worker="me")))
    for _ in range(5):
        beat(registry, worker="me")
    assert list(registry.active) == ["a"]


def test_a_run_that_is_not_active_cannot_start(registry):
    registry.apply(Started(RunRecord(id="a", stream="a", token="1", status="finished")))
    assert not registry.active


def test_runs_are_divided_by_their_size():
    runs = [record(str(number), "x" * size) for number, size in enumerate((1, 1, 5000, 1, 1))]
    assert divide(runs, 1000) == [tuple(runs[:2]), (runs[2],), tuple(runs[3:])]
    assert divide(runs, 10_000) == [tuple(runs)]
    assert divide(runs, 0) == [(run,) for run in runs]
    assert divide([], 1000) == [()]


def test_it_remembers_a_bounded_number_of_ended_runs(registry, monkeypatch):
    monkeypatch.setattr(limits, "RUNS_ENDED_MAX", 2)
    for name in "abc":
        registry.apply(Started(record(name, name)))
        registry.apply(Ended(name, name, "finished"))
    assert [run.id for run in registry.list_runs()] == ["b", "c"]


def test_it_remembers_each_run_of_an_id_and_finds_the_last(registry):
    for token in "12":
        registry.apply(Started(record("a", token)))
        registry.apply(Ended("a", token, "finished" if token == "1" else "failed"))
    registry.apply(Started(record("a", "3")))
    assert [registry.look_up(record("a", token)).status for token in "123"] == ["finished", "failed", "running"]
    assert registry.find("a").token == "3"
    registry.apply(Ended("a", "3", "stopped"))
    assert registry.find("a").token == "3"
    assert [run.token for run in registry.list_runs()] == ["3"]


def test_a_run_that_nobody_remembers_is_not_active(registry, monkeypatch):
    monkeypatch.setattr(limits, "RUNS_ENDED_MAX", 1)
    for token in "12":
        registry.apply(Started(record("a", token)))
        registry.apply(Ended("a", token, "finished"))
    assert registry.look_up(record("a", "1")).status == "lost"
    assert registry.find("a").token == "2"
    registry.apply(Started(record("b", "3")))
    registry.apply(Ended("b", "3", "finished"))
    assert registry.find("a") is None


def test_a_run_whose_end_was_trimmed_is_forgotten_once_everything_is_read_again(registry):
    for run in (record("gone", "1"), record("goes on", "2"), record("mine", "3", worker="me")):
        registry.apply(Started(run))
    registry.read_again()
    registry.apply(Running("w", (record("goes on", "2"), record("older", "4"))))
    assert sorted(registry.active) == ["goes on", "gone", "mine", "older"]
    registry.forget_unmentioned()
    assert sorted(registry.active) == ["goes on", "mine", "older"]
    assert registry.look_up(record("gone", "1")).status == "lost"
    registry.apply(Running("w", (record("gone", "1"),)))
    assert registry.look_up(record("gone", "1")).status == "running"


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True), (False, False)])
def test_of_two_runs_with_one_stream_the_first_may_write_it(registry, first, second):
    runs = [
        RunRecord(id=str(number), stream="same", token=str(number), closes=closes)
        for number, closes in enumerate((first, second))
    ]
    for run in runs:
        registry.apply(Started(run))
    assert registry.find_rival(runs[0]) is None
    assert registry.find_rival(runs[1]) == (runs[0] if first or second else None)
    registry.apply(Ended("0", "0", "finished"))
    assert registry.find_rival(runs[1]) is None


def test_orphans_are_runs_of_processes_that_had_the_log_open(registry):
    for name, worker, is_embedded in (("a", "dead", True), ("b", "alive", True), ("c", "remote", False)):
        registry.apply(Started(RunRecord(id=name, stream=name, token=name, worker=worker, embedded=is_embedded)))
    assert [run.id for run in registry.find_orphans({"me", "alive"})] == ["a"]


@pytest.mark.parametrize(
    "entry",
    [
        Started(record()),
        Stopped("a", "1", "why"),
        Ended("a", "1", "failed"),
        Heartbeat("w"),
        Running("w", (record(),)),
        Running("w", last=True),
    ],
)
def test_entries_survive_the_stream(entry):
    assert decode_entry(encode_json(encode_entry(entry))) == entry


@pytest.mark.parametrize(
    "message",
    [b"1", b"{}", b'{"type":"other"}', b'{"type":"end","id":1}', b"\xff", b'"start"', b'{"a":' * 100_000],
    ids=lambda message: repr(message[:24]),
)
def test_messages_of_others_are_ignored(message):
    assert decode_entry(message) is None
