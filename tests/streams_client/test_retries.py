"""Retries: what is retried, after how long, what is not, and how retries are reported."""

import math
import random
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.client import (
    BadArgument,
    BadRequest,
    ConnectionFailed,
    InvalidResponse,
    NotFound,
    RateLimited,
    Retries,
    Retry,
    ServerFailed,
    TimedOut,
    Unavailable,
)
from mainstem.client.core.effects import NoResponse, Wait
from mainstem.client.core.operations import Operations
from mainstem.client.core.retries import read_retry_after
from mainstem.client.retry_reports import RetryReports
from tests.streams_client.canned import canned, reply

INFO = {"content-type": "text/plain", "stream-next-offset": "1"}
PAGE = reply(200, {**INFO, "stream-up-to-date": "true"}, b"data")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("call", ["read_bytes", "head", "append", "delete", "create"])
def test_a_transient_failure_is_retried(streams, path, faults, status, call):
    streams.create(path, "text/plain", body="data")
    faults.inject(path, status=status, count=3)
    if call == "append":
        streams.append(path, "x")
        assert streams.read_bytes(path) == b"datax"
    elif call == "create":
        assert streams.create(path, "text/plain").created is False
    else:
        getattr(streams, call)(path)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, BadRequest), (404, NotFound), (405, BadRequest), (501, ServerFailed)]
)
def test_a_permanent_failure_is_not_retried(twins, status, kind):
    with canned(reply(status)) as peer:
        with pytest.raises(kind) as caught:
            twins(peer.url).head("s")
        assert (len(peer.asked), caught.value.status) == (1, status)


def test_a_fault_applies_only_to_its_method(streams, path, faults):
    streams.create(path, "text/plain", body="data")
    faults.inject(path, method="POST", status=400)
    assert streams.read_bytes(path) == b"data"
    with pytest.raises(BadRequest):
        streams.append(path, "x")


@pytest.mark.parametrize(("status", "kind"), [(503, Unavailable), (500, ServerFailed), (429, RateLimited)])
def test_retries_are_limited(twins, status, kind):
    with canned(reply(status)) as peer:
        with pytest.raises(kind) as caught:
            twins(peer.url, retries=Retries(attempts_max=3, delay_s=0.001)).read_bytes("s")
        assert len(peer.asked) == 3
        assert caught.value.retryable


def test_one_attempt_means_no_retry(twins):
    with canned(reply(503)) as peer:
        with pytest.raises(Unavailable):
            twins(peer.url, retries=Retries(attempts_max=1)).head("s")
        assert len(peer.asked) == 1


@pytest.mark.parametrize("fault", [{"dropConnection": True}, {"dropReply": True}, {"dropAfterBytes": 3}])
def test_a_broken_connection_is_replaced(streams, path, faults, fault):
    streams.create(path, "application/json", body=b'["persistent", "data"]')
    faults.inject(path, method="GET", **fault, count=4)
    assert streams.read_json(path) == ["persistent", "data"]


@pytest.mark.parametrize("fault", [{"delayMs": 200}, {"delayMs": 50, "jitterMs": 100}])
def test_the_client_waits_for_a_slow_server(streams, path, faults, fault):
    streams.create(path, "text/plain")
    faults.inject(path, **fault, count=3)
    streams.append(path, "x")
    assert streams.read_text(path) == "x"


def test_an_error_after_a_delay_is_retried(streams, path, faults):
    streams.create(path, "text/plain", body="x")
    faults.inject(path, method="GET", delayMs=100, status=503)
    assert streams.read_text(path) == "x"


def test_silence_is_a_timeout_and_is_retried(twins, server, path, faults):
    streams = twins(server.url, timeout_s=0.25)
    streams.create(path, "text/plain")
    faults.inject(path, delayMs=600, count=2)
    streams.append(path, "once")
    assert streams.read_text(path) == "once"
    faults.inject(path, delayMs=600, count=6, method="HEAD")
    with pytest.raises(TimedOut) as caught:
        streams.head(path)
    assert "timeout_s" in caught.value.hint


def test_an_unreachable_server_is_named(twins):
    with canned(b"") as peer:
        url = peer.url
    with pytest.raises(ConnectionFailed, match=url) as caught:
        twins(url, retries=Retries(attempts_max=2, delay_s=0.001)).head("s")
    assert "Check that the server runs" in str(caught.value)


@pytest.fixture
def dead_url():
    """The URL of a port that is bound, so that nobody else gets it, and at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_a_dead_port_is_an_error_after_waits_of_less_than_two_seconds(twins, dead_url):
    retries: list[Retry] = []
    with pytest.raises(ConnectionFailed, match="connection refused"):
        twins(dead_url, retries=None, on_retry=retries.append).head("chat/1")
    assert len(retries) == 4
    assert sum(retry.wait_s for retry in retries) < 2.0


def test_a_dead_port_is_in_the_log_before_it_is_an_error(twins, dead_url, caplog):
    with pytest.raises(ConnectionFailed, match="connection refused"):
        twins(dead_url, retries=None).head("chat/1")
    warning = caplog.records[0]
    assert (warning.name, warning.levelname) == ("mainstem.client", "WARNING")
    assert f"head chat/1: cannot connect to {dead_url}: connection refused; attempt 3 of 5 in " in warning.getMessage()
    assert "giving up after at most" in warning.getMessage()


def test_each_retry_is_reported_with_its_reason_and_what_follows(twins, dead_url, caplog):
    retries: list[Retry] = []
    with pytest.raises(ConnectionFailed):
        twins(dead_url, retries=Retries(attempts_max=3, delay_s=0.01), on_retry=retries.append).head("chat/1")
    assert [(retry.call, retry.url, retry.failures, retry.attempts_max) for retry in retries] == [
        ("head chat/1", dead_url, 1, 3),
        ("head chat/1", dead_url, 2, 3),
    ]
    assert all(isinstance(retry.error, ConnectionFailed) and 0.005 <= retry.wait_s <= 0.02 for retry in retries)
    assert not caplog.records


def test_a_producer_reports_its_retries_too(twins, dead_url):
    retries: list[Retry] = []
    streams = twins(dead_url, on_retry=retries.append)
    producer = streams.producer("chat/1", content_type="text/plain", retries=Retries(attempts_max=3, delay_s=0.01))
    producer.append("x")
    with pytest.raises(ConnectionFailed, match="append chat/1: cannot connect"):
        producer.close()
    assert [(retry.call, retry.failures, retry.attempts_max) for retry in retries] == [
        ("append chat/1", 1, 3),
        ("append chat/1", 2, 3),
    ]


def test_a_callback_that_raises_does_not_end_the_call(twins, caplog):
    with canned(reply(503), PAGE) as peer:
        assert twins(peer.url, on_retry=lambda _: 1 / 0).read_bytes("s") == b"data"
    assert "on_retry raised" in caplog.text


def test_a_busy_server_is_named_in_the_warning(twins, caplog):
    with canned(reply(503, {"retry-after": "1"}), PAGE) as peer:
        assert twins(peer.url).read_bytes("s") == b"data"
    assert f"read_bytes s: the server answered 503 (at {peer.url}); attempt 2 of 6 in 1.0 s" in caplog.text


def test_only_a_server_that_has_answered_once_gets_all_the_retries_unless_they_are_given():
    def count_attempts(retries: Retries | None, *, reached: bool) -> int:
        made = Operations(
            "http://h",
            prefix="/v1/stream",
            token=None,
            headers=None,
            params=None,
            retries=retries,
            report=lambda _: None,
            exactly_once=True,
            make_id=str,
            chance=lambda: 0.5,
            clock_s=lambda: 0.0,
        )
        made.sender.reached = reached
        operation = made.head("s")
        attempts, effect = 0, next(operation)
        try:
            while True:
                if isinstance(effect, Wait):
                    effect = operation.send(None)
                else:
                    attempts += 1
                    effect = operation.throw(NoResponse("connection refused", sent=False))
        except ConnectionFailed:
            return attempts

    assert count_attempts(None, reached=False) == limits.CLIENT_FIRST_ATTEMPTS == 5
    assert count_attempts(None, reached=True) == limits.CLIENT_ATTEMPTS == 10
    assert count_attempts(Retries(attempts_max=7), reached=False) == 7


def test_warnings_about_an_outage_are_rare_and_say_how_long_it_goes_on(caplog):
    now_s = 0.0
    reports = RetryReports(None, lambda: now_s)
    error = ConnectionFailed("follow s: cannot connect to http://h: connection refused")

    def report(failures: int, wait_s: float, attempts_max: int | None = None, remaining_s: float | None = None) -> None:
        reports(Retry("follow s", "http://h", error, failures, attempts_max, wait_s, remaining_s))

    report(1, 0.1)
    report(2, 0.2, 3, 0.2)
    assert not caplog.records
    report(2, 0.2)
    report(2, 0.2)
    now_s = 5.0
    report(9, 5.0, 10, 5.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"{error.detail}; attempt 3 in 0.2 s, retrying until the server answers",
        f"{error.detail}; attempt 10 of 10 in 5.0 s, giving up after at most 5 s",
    ]


def test_a_deletion_whose_reply_was_lost_has_succeeded(streams, path, faults):
    streams.create(path, "text/plain")
    faults.inject(path, method="DELETE", dropReply=True)
    streams.delete(path)
    with pytest.raises(NotFound):
        streams.delete(path)


def test_a_creation_whose_reply_was_lost_stores_its_body_once(streams, path, faults):
    faults.inject(path, method="PUT", dropReply=True, count=2)
    streams.create(path, "text/plain", body="once")
    assert streams.read_text(path) == "once"


# Corrupt replies


@pytest.mark.parametrize("fault", [{"truncateBodyBytes": 10}, {"truncateBodyBytes": 15}, {"corruptBody": True}])
def test_truncated_or_corrupt_json_is_an_error_and_not_an_empty_list(streams, path, faults, fault):
    streams.create(path, "application/json", body=b'[{"item": 1}, {"item": 2}]')
    streams.append(path, {"key": "some long value that will be cut"})
    faults.inject(path, method="GET", **fault)
    with pytest.raises(InvalidResponse) as caught:
        streams.read_json(path)
    assert "Call again" in caught.value.hint
    assert len(streams.read_json(path)) == 3


def test_a_reply_of_something_else_is_an_error(twins):
    with canned(reply(200, {"content-type": "text/plain"}, b"welcome")) as peer:
        streams = twins(peer.url)
        for call in (streams.read_bytes, streams.head, streams.create):
            with pytest.raises(InvalidResponse, match="Stream-Next-Offset"):
                call("s")
        with pytest.raises(InvalidResponse, match="list of streams"):
            list(streams.list())


def test_a_server_that_never_reaches_the_end_is_not_read_forever(twins):
    with canned(reply(200, INFO, b"")) as peer:
        with pytest.raises(InvalidResponse, match="more"):
            twins(peer.url).read_bytes("s", "1")
        with pytest.raises(InvalidResponse, match="more"):
            list(twins(peer.url).follow("s", "1"))


# Delays


def test_retry_after_is_respected(twins):
    with canned(reply(429, {"retry-after": "1"}), PAGE) as peer:
        streams = twins(peer.url)
        began_s = time.monotonic()
        assert streams.read_bytes("s") == b"data"
        assert time.monotonic() - began_s >= 1.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "99999999999999999999"}, 60.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Wed, 21 Oct 2015 07:28:10 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT"}, None),
        ({"retry-after": f"Wed, 21 Oct 2015 07:28:{2**31} GMT", "date": "Wed, 21 Oct 2015 07:28:10 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_relative_to_the_servers_clock(headers, seconds):
    assert read_retry_after(headers) == seconds


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(1, 10))
def test_delays_grow_to_a_limit_and_are_never_zero(failures, chance, multiplier):
    retries = Retries(attempts_max=None, delay_s=0.1, delay_s_max=5.0, multiplier=multiplier)
    delay_s = retries.delay(failures, lambda: chance)
    assert 0.05 <= delay_s <= 5.0
    assert math.isclose(Retries(delay_s=0.1).delay(2, lambda: 1.0), 0.2)


def test_clients_that_failed_together_do_not_retry_together():
    draws = random.Random(7)
    assert len({Retries().delay(3, draws.random) for _ in range(100)}) > 90


@pytest.mark.parametrize(
    "values",
    [
        {"attempts_max": 0},
        {"attempts_max": -1},
        {"delay_s": 0},
        {"delay_s": -1},
        {"delay_s": 2, "delay_s_max": 1},
        {"multiplier": 0.5},
        {"delay_s": math.nan},
    ],
)
def test_invalid_retries_are_refused_by_name(values):
    with pytest.raises(BadArgument, match="|".join(values)):
        Retries(**values)


def test_a_clock_that_jumps_changes_nothing(twins, server, path, faults, follower, monkeypatch):
    """Only the monotonic clock counts; the time of day may jump."""
    jumps = random.Random(5)
    monkeypatch.setattr(time, "time", lambda: jumps.uniform(0, 4e9))
    monkeypatch.setattr(time, "time_ns", lambda: jumps.randrange(4 * 10**18))
    streams = twins(server.url)
    streams.create(path, "application/json")
    follow = follower(streams.follow(path))
    with streams.producer(path) as producer:
        for number in range(20):
            if number % 5 == 0:
                faults.inject(path, method="POST", status=503)
            producer.append(number)
            producer.flush()
    follow.wait_for_messages(list(range(20)))
    streams.close(path)
    follow.wait_until_ended()
