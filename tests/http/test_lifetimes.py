"""TTL and expiry, with a clock that the test advances."""

import pytest

from mainstem.testing.clock import FakeClock

TEXT = {"content-type": "text/plain"}
TTL = TEXT | {"stream-ttl": "10"}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def client(start_thread, connect_to, clock):
    return connect_to(start_thread(clock_us=clock, long_poll_ms=10))


def test_an_idle_stream_expires(client, clock, path):
    client.put(path, headers=TTL, content=b"data")
    clock.advance(9.999)
    assert client.head(path).status_code == 200
    clock.advance(0.001)
    assert client.head(path).status_code == 404
    assert client.get(path).status_code == 404
    assert client.post(path, headers=TEXT, content=b"x").status_code == 404
    assert client.delete(path).status_code == 404


@pytest.mark.parametrize(
    "keep_alive",
    [
        lambda client, path: client.get(path),
        lambda client, path: client.get(path + "?offset=now"),
        lambda client, path: client.get(path + "?offset=now&live=long-poll"),
        lambda client, path: client.get(path, headers={"if-none-match": "*"}),
        lambda client, path: client.post(path, headers=TEXT, content=b"x"),
    ],
    ids=["read", "now", "long-poll", "not-modified", "append"],
)
def test_every_read_and_write_slides_the_ttl(client, clock, path, keep_alive):
    client.put(path, headers=TTL, content=b"data")
    for _ in range(3):
        clock.advance(9)
        assert keep_alive(client, path).status_code in {200, 204, 304}
    clock.advance(9.9)
    assert client.head(path).status_code == 200
    clock.advance(0.1)
    assert client.head(path).status_code == 404


def test_a_close_slides_the_ttl(client, clock, path):
    client.put(path, headers=TTL)
    clock.advance(9)
    client.post(path, headers={"stream-closed": "true"})
    clock.advance(9)
    assert client.head(path).headers["stream-closed"] == "true"


def test_head_does_not_slide_the_ttl(client, clock, path):
    client.put(path, headers=TTL)
    clock.advance(9)
    assert client.head(path).status_code == 200
    clock.advance(1)
    assert client.head(path).status_code == 404


def test_refused_requests_do_not_slide_the_ttl(client, clock, path):
    client.put(path, headers=TTL)
    clock.advance(9)
    assert client.post(path, headers=TEXT, content=b"").status_code == 400
    assert client.get(path + "?offset=bad").status_code == 400
    clock.advance(1)
    assert client.head(path).status_code == 404


def test_nothing_moves_an_absolute_expiry(client, clock, path):
    client.put(path, headers=TEXT | {"stream-expires-at": "2023-11-14T22:13:30Z"}, content=b"data")  # in 10 s
    clock.advance(9)
    assert client.get(path).status_code == 200
    assert client.post(path, headers=TEXT, content=b"x").status_code == 204
    clock.advance(1)
    assert client.get(path).status_code == 404


def test_a_path_is_free_again_once_its_stream_has_expired(client, clock, path):
    old = client.put(path, headers=TTL, content=b"old").headers["stream-next-offset"]
    clock.advance(10)
    assert client.put(path, headers=TEXT, content=b"new").status_code == 201
    assert client.get(path).content == b"new"
    assert client.get(f"{path}?offset={old}").status_code == 410
