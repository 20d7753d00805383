from mainstem import limits
from mainstem.client.core.retries import Retries
from mainstem.client.workers.core.failures import Failures
from mainstem.client.workers.core.wakes import WakeStream


def failures():
    return Failures(Retries(attempts_max=None, delay_s=1.0, delay_s_max=8.0), lambda: 1.0)


def stream(path="a", acked="1"):
    return WakeStream(path, acked, "9")


def test_a_failed_stream_waits_longer_each_time_up_to_a_limit():
    failing, now_s, waits = failures(), 0.0, []
    for count in range(1, 7):
        assert failing.record("a", "1", now_s).failures == count
        waits.append(failing.wait_s([stream()], now_s))
        assert failing.select_due([stream()], now_s) == []
        now_s += waits[-1]
        assert failing.select_due([stream()], now_s) == [stream()]
    assert waits == [1, 2, 4, 8, 8, 8]


def test_other_streams_do_not_wait():
    failing = failures()
    failing.record("a", "1", 0.0)
    assert failing.select_due([stream("a"), stream("b")], 0.0) == [stream("b")]
    assert failing.wait_s([stream("b")], 0.0) == 0.0


def test_data_that_another_worker_has_acknowledged_no_longer_counts():
    failing = failures()
    failing.record("a", "1", 0.0)
    assert failing.select_due([stream(acked="2")], 0.0) == [stream(acked="2")]
    assert failing.count_calls("a", "1") == 0


def test_other_data_of_a_stream_counts_from_one():
    failing = failures()
    failing.record("a", "1", 0.0)
    failing.record("a", "1", 0.0)
    assert failing.record("a", "2", 0.0).failures == 1
    failing.forget("a")
    assert failing.count_calls("a", "2") == 0


def test_failures_before_a_call_lengthen_the_pause_but_are_no_calls():
    failing = failures()
    for _ in range(3):
        failing.record("a", "1", 0.0, called=False)
    assert failing.count_calls("a", "1") == 0
    assert failing.wait_s([stream()], 0.0) == 4.0
    failing.record("a", "1", 0.0)
    assert failing.count_calls("a", "1") == 1
    assert failing.wait_s([stream()], 0.0) == 8.0


def test_failing_streams_are_bounded(monkeypatch):
    monkeypatch.setattr(limits, "WORKER_FAILING_STREAMS_MAX", 2)
    failing = failures()
    for path in ("a", "b", "c"):
        failing.record(path, "1", 0.0)
    assert [failing.count_calls(path, "1") for path in ("a", "b", "c")] == [0, 1, 1]
