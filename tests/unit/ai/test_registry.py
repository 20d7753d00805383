import pytest

from mainstem import limits
from mainstem.ai.registry import Ended, Heartbeat, Registry, RunRecord, Started, Stopped, decode_entry, encode_entry
from mainstem.client.core.strict_json import encode_json

LATER_S = limits.RUN_LEASE_S + 1


def record(run_id: str = "a", token: str = "1", worker: str = "w") -> RunRecord:
    return RunRecord(id=run_id, stream=run_id, token=token, worker=worker)


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_of_two_starts_with_one_id_the_first_wins(registry):
    registry.apply(Started(record(token="1")), 0)
    registry.apply(Started(record(token="2")), 0)
    assert registry.active["a"].token == "1"


def test_an_id_is_free_again_after_the_end(registry):
    registry.apply(Started(record(token="1")), 0)
    registry.apply(Ended("a", "1", "finished"), 0)
    assert registry.find("a").status == "finished"
    registry.apply(Started(record(token="2")), 0)
    assert registry.find("a").token == "2"


def test_a_stop_concerns_the_start_that_it_names(registry):
    registry.apply(Started(record(token="2")), 0)
    registry.apply(Stopped("a", "1", "too late"), 0)
    assert registry.active["a"].status == "running"
    registry.apply(Stopped("a", "2", "enough"), 0)
    assert (registry.active["a"].status, registry.active["a"].reason) == ("stopping", "enough")
    registry.apply(Stopped("missing", "2"), 0)
    assert list(registry.active) == ["a"]


def test_an_end_for_an_earlier_start_changes_nothing(registry):
    registry.apply(Started(record(token="2")), 0)
    registry.apply(Ended("a", "1", "lost"), 0)
    assert registry.active["a"].token == "2"


def test_runs_of_a_silent_worker_are_lost_while_the_observer_is_heard(registry):
    registry.apply(Started(record("a", worker="silent")), 0)
    registry.apply(Started(record("b", "2", worker="me")), 0)
    registry.apply(Heartbeat("me"), LATER_S)
    assert [run.id for run in registry.find_lost("me")] == ["a"]


def test_nobody_is_lost_while_the_observer_is_not_heard_either(registry):
    """The server was away, or this process was: the others may have been alive all the time."""
    registry.apply(Started(record("a", worker="other")), 0)
    registry.apply(Heartbeat("me"), 1)
    assert registry.find_lost("me") == []
    registry.apply(Heartbeat("other"), 100)
    registry.apply(Heartbeat("me"), 100)
    assert registry.find_lost("me") == []


def test_a_heartbeat_brings_back_runs_whose_start_was_trimmed(registry):
    registry.apply(Heartbeat("w", (record(),)), 0)
    assert registry.active["a"].worker == "w"


def test_a_heartbeat_does_not_revive_a_run_that_has_ended(registry):
    registry.apply(Started(record()), 0)
    registry.apply(Ended("a", "1", "stopped"), 0)
    registry.apply(Heartbeat("w", (record(),)), 0)
    assert not registry.active
    assert registry.find("a").status == "stopped"


def test_it_remembers_a_bounded_number_of_ended_runs(registry, monkeypatch):
    monkeypatch.setattr(limits, "RUNS_ENDED_MAX", 2)
    for name in "abc":
        registry.apply(Started(record(name, name)), 0)
        registry.apply(Ended(name, name, "finished"), 0)
    assert [run.id for run in registry.list_runs()] == ["b", "c"]


@pytest.mark.parametrize(
    "entry", [Started(record()), Stopped("a", "1", "why"), Ended("a", "1", "failed"), Heartbeat("w", (record(),))]
)
def test_entries_survive_the_stream(entry):
    assert decode_entry(encode_json(encode_entry(entry))) == entry


@pytest.mark.parametrize("message", [b"1", b"{}", b'{"type":"other"}', b'{"type":"end","id":1}', b"\xff", b'"start"'])
def test_messages_of_others_are_ignored(message):
    assert decode_entry(message) is None
