"""Which traces have appended what: only as much as the limits allow, and only what a wake announces."""

from mainstem import limits
from mainstem.server.telemetry.traced_appends import TracedAppends
from mainstem.streams.rules.offsets import Offset


def at(position, read_seq=0):
    return str(Offset(read_seq, position))


def test_a_wake_finds_the_appends_between_its_offsets():
    appends = TracedAppends[str]()
    for position in (5, 10, 15, 20):
        appends.add("a", at(position), f"trace {position}")
    appends.add("b", at(12), "another stream")
    assert appends.find("a", at(5), at(15)) == ["trace 10", "trace 15"]
    assert appends.find("a", at(20), at(30)) == []
    assert appends.find("a", at(0, read_seq=1), at(30, read_seq=1)) == []
    assert appends.find("c", at(0), at(30)) == []


def test_only_the_latest_appends_are_remembered(monkeypatch):
    monkeypatch.setattr(limits, "TRACED_APPENDS_PER_STREAM_MAX", 2)
    monkeypatch.setattr(limits, "TRACED_STREAMS_MAX", 2)
    appends = TracedAppends[int]()
    for position in (1, 2, 3):
        appends.add("a", at(position), position)
    assert appends.find("a", at(0), at(9)) == [2, 3]
    appends.add("b", at(1), 1)
    appends.add("a", at(4), 4)
    appends.add("c", at(1), 1)
    assert [len(appends.find(path, at(0), at(9))) for path in "abc"] == [2, 0, 1]
