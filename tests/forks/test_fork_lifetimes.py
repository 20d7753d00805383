"""The lifetimes of forks, with a clock that the test moves (protocol section 4.2, the table of nine rows)."""

from datetime import UTC, datetime

import pytest

from mainstem.testing.clock import SECOND_US, FakeClock
from tests.forks.branches import ROOT, TEXT, fork, read_all

NOTHING, TTL, OTHER_TTL, HOUR, TWO_HOURS = range(5)


@pytest.fixture
def clock(clocked):
    return clocked[1]


@pytest.fixture
def client(clocked, connect_to):
    return connect_to(clocked[0])


def lifetime(kind, clock):
    """Return the headers that request this lifetime, counted from the current time of the clock."""
    if kind in (TTL, OTHER_TTL):
        return {"stream-ttl": "100" if kind == TTL else "5000"}
    if kind in (HOUR, TWO_HOURS):
        at = datetime.fromtimestamp(clock.now_us // SECOND_US + (3600 if kind == HOUR else 7200), UTC)
        return {"stream-expires-at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {}


@pytest.mark.parametrize(
    ("source", "asked", "gets", "lives_s"),
    [
        (NOTHING, NOTHING, NOTHING, None),
        (NOTHING, TTL, TTL, 100),
        (NOTHING, HOUR, HOUR, 3600),
        (OTHER_TTL, NOTHING, OTHER_TTL, 5000),
        (OTHER_TTL, TTL, TTL, 100),
        (OTHER_TTL, HOUR, HOUR, 3600),
        (HOUR, NOTHING, HOUR, 3600),
        (HOUR, OTHER_TTL, OTHER_TTL, 5000),
        (HOUR, TWO_HOURS, TWO_HOURS, 7200),
    ],
)
def test_a_fork_has_the_lifetime_it_requests_or_else_that_of_its_source(
    client, clock, path, source, asked, gets, lives_s
):
    expected = lifetime(gets, clock)
    client.put(ROOT + path, headers={"content-type": TEXT} | lifetime(source, clock), content=b"data")
    made = client.put(ROOT + path + "/f", headers={"stream-forked-from": ROOT + path} | lifetime(asked, clock))
    assert made.status_code == 201
    found = client.head(ROOT + path + "/f").headers
    assert {name: found[name] for name in ("stream-ttl", "stream-expires-at") if name in found} == expected
    clock.advance((lives_s or 10**7) - 1)
    assert client.head(ROOT + path + "/f").status_code == 200
    if lives_s is not None:
        clock.advance(1)
        assert client.head(ROOT + path + "/f").status_code == 404


def test_a_fork_outlives_its_expired_source_with_all_data(client, clock, path):
    client.put(ROOT + path, headers={"content-type": TEXT} | lifetime(HOUR, clock), content=b"data")
    fork(client, path + "/f", path, **lifetime(TWO_HOURS, clock))
    clock.advance(7199)
    assert client.get(ROOT + path).status_code in {404, 410}
    assert read_all(client, path + "/f") == b"data"


def test_the_ttls_of_a_fork_and_its_source_slide_independently(client, clock, path):
    client.put(ROOT + path, headers={"content-type": TEXT} | lifetime(TTL, clock), content=b"data")
    fork(client, path + "/f", path)
    fork(client, path + "/g", path)
    for _ in range(3):
        clock.advance(60)
        assert read_all(client, path + "/f") == b"data"
    assert client.head(ROOT + path + "/f").status_code == 200
    assert client.head(ROOT + path + "/g").status_code == 404
    assert client.head(ROOT + path).status_code in {404, 410}


def test_a_fork_of_an_expired_source_is_refused_as_if_the_source_were_missing(client, clock, path):
    client.put(ROOT + path, headers={"content-type": TEXT} | lifetime(TTL, clock), content=b"data")
    clock.advance(100)
    assert fork(client, path + "/f", path).status_code == 404


def test_an_expired_source_with_forks_keeps_its_path_even_before_it_is_reaped(start_thread, connect_to, monkeypatch):
    """Otherwise the path could be reused before the reaper runs, and the data would never be erased."""
    monkeypatch.setattr("mainstem.limits.REAP_EVERY_S", 3600.0)
    clock = FakeClock()
    client = connect_to(start_thread(clock_us=clock))
    client.put(ROOT + "s", headers={"content-type": TEXT, "stream-ttl": "100"}, content=b"data")
    fork(client, "f", "s", stream_ttl="100000")
    clock.advance(100)
    assert client.head(ROOT + "s").status_code in {404, 410}
    assert client.put(ROOT + "s", headers={"content-type": TEXT}).status_code == 409
    assert read_all(client, "f") == b"data"
