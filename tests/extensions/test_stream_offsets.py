"""`GET /v1/stream-offset/<path>?time=`: the offset of the first message that was committed at or after a time."""

import json
from urllib.parse import quote

import pytest

from mainstem.testing.clock import FakeClock
from mainstem.timestamps import format_time_exactly, parse_time

ROOT = "/v1/stream/"
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
TIME = "2026-01-31T12:00:00Z"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def client(request, start_thread, connect_to, clock):
    """A client of a server on each store. The clock of PostgreSQL is its own."""
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param
    return connect_to(start_thread(store=store, clock_us=clock))


@pytest.fixture
def any_client(start_thread, connect_to):
    return connect_to(start_thread(store="memory"))


def offset_of(position: int) -> str:
    return f"{0:016d}_{position:016d}"


def find(client, path, time) -> tuple[str, str | None]:
    reply = client.get(f"/v1/stream-offset/{quote(path)}", params={"time": time})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    body = reply.json()
    assert body.keys() == {"offset", "committed_at"}
    return body["offset"], body["committed_at"]


def read_log_times(client, path) -> list[tuple[str, str]]:
    """Return the offset and time of every append, as the log has them."""
    rows = client.get("/v1/log", params={"stream": path, "columns": "offset,committed_at,position"}).text.splitlines()
    found = [json.loads(row) for row in rows]
    return [(row["offset"], row["committed_at"]) for row in found if row["position"] == 0]


def test_every_append_is_found_by_its_time(client, clock):
    client.put(ROOT + "s", headers=TEXT)
    for number in range(30):
        clock.advance(us=1 + number * 1_000)
        client.post(ROOT + "s", headers=TEXT, content=b"x" * (1 + number % 7))
    appends = read_log_times(client, "s")
    assert len(appends) == 30
    for offset, committed_at in appends:
        assert find(client, "s", committed_at) == (offset, committed_at)
    assert find(client, "s", "1970-01-01T00:00:00Z") == appends[0]
    end = client.head(ROOT + "s").headers["stream-next-offset"]
    assert find(client, "s", "9999-12-31T23:59:59Z") == (end, None)


def test_a_read_from_the_offset_returns_what_was_committed_since(client, clock):
    client.put(ROOT + "s", headers=JSON, content=b"[1,2]")
    clock.advance(60)
    client.post(ROOT + "s", headers=JSON, content=b"[3,4]")
    first, second = read_log_times(client, "s")
    between = format_time_exactly(parse_time(first[1]) + 1)
    assert find(client, "s", between) == second
    assert client.get(ROOT + "s", params={"offset": second[0]}).json() == [3, 4]


def test_an_empty_stream_and_one_without_later_data_point_to_their_end(client):
    client.put(ROOT + "s", headers=TEXT)
    assert find(client, "s", TIME.replace("2026", "1990")) == (offset_of(0), None)
    client.post(ROOT + "s", headers={**TEXT, "stream-closed": "true"}, content=b"abc")
    assert find(client, "s", TIME.replace("2026", "2999")) == (offset_of(3), None)


def test_a_fork_is_searched_with_what_it_shares(client, clock):
    client.put(ROOT + "source", headers=TEXT, content=b"one")
    clock.advance(60)
    client.post(ROOT + "source", headers=TEXT, content=b"two")
    made = client.put(
        ROOT + "fork",
        headers={
            "stream-forked-from": ROOT + "source",
            "stream-fork-offset": offset_of(3),
            "stream-fork-sub-offset": "1",
        },
    )
    assert made.status_code == 201, made.text
    clock.advance(60)
    client.post(ROOT + "fork", headers=TEXT, content=b"three")
    first, second = read_log_times(client, "source")
    assert find(client, "fork", first[1]) == first
    assert find(client, "fork", second[1]) == second
    (third,) = read_log_times(client, "fork")
    assert third[0] == offset_of(4)
    assert find(client, "fork", third[1]) == third
    assert find(client, "fork", "2999-01-01T00:00:00Z") == (offset_of(9), None)
    assert find(client, "source", third[1]) == (offset_of(6), None)


def test_data_that_retention_has_discarded_is_not_found(client, clock):
    client.put(ROOT + "s", headers={**TEXT, "stream-retention": "max-messages=2"})
    for number in range(5):
        clock.advance(60)
        client.post(ROOT + "s", headers=TEXT, content=b"%d" % number)
    assert client.post("/v1/prune", json={"streams": {"s": offset_of(4)}}).status_code == 202
    offset, _ = find(client, "s", "1970-01-01T00:00:00Z")
    assert client.get(ROOT + "s", params={"offset": offset}).text == "4"
    assert offset == client.head(ROOT + "s").headers["stream-earliest-offset"] == offset_of(4)


def test_a_lookup_does_not_keep_a_stream_alive(start_thread, connect_to, clock):
    client = connect_to(start_thread(store="memory", clock_us=clock))
    client.put(ROOT + "s", headers={**TEXT, "stream-ttl": "10"}, content=b"x")
    clock.advance(6)
    find(client, "s", TIME)
    clock.advance(6)
    assert client.get(f"/v1/stream-offset/s?time={TIME}").status_code == 404


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a b/ü", "\u202egnp.exe", "a%b", "😀", "a?b#c"])
def test_a_hostile_name_is_a_name_like_any_other(any_client, name):
    any_client.put(ROOT + quote(name), headers=TEXT, content=b"x")
    assert find(any_client, name, "1990-01-01T00:00:00Z")[0] == offset_of(0)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "time=",
        "time=now",
        "time=0",
        "time=2026-01-31",
        "time=2026-01-31T12:00:00",
        "time=2026-01-31T12:00:00+02:00",  # the plus sign is a space in a query
        "time=2026-02-30T12:00:00Z",
        "time=%00",
        "time=%FF",
        f"time={TIME}&time={TIME}",
        "time=" + "9" * 10_000,
    ],
)
def test_an_invalid_time_gets_400(any_client, query):
    any_client.put(ROOT + "s", headers=TEXT)
    refused = any_client.get("/v1/stream-offset/s?" + query)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_query")


def test_a_time_may_have_a_zone(any_client):
    any_client.put(ROOT + "s", headers=TEXT)
    assert any_client.get("/v1/stream-offset/s?time=2026-01-31T12:00:00%2B02:00").status_code == 200


def test_streams_that_do_not_exist_are_refused_as_in_reads(any_client):
    any_client.put(ROOT + "source", headers=TEXT, content=b"x")
    any_client.put(ROOT + "fork", headers={"stream-forked-from": ROOT + "source"})
    any_client.delete(ROOT + "source")
    for path in ("missing", "source", "a/../b", "", "a//b", "%00", "__ds/keys"):
        found = any_client.get(f"/v1/stream-offset/{path}", params={"time": TIME})
        read = any_client.get(ROOT + path)
        if not path.startswith("__ds"):
            assert (found.status_code, found.json()["code"]) == (read.status_code, read.json()["code"])
        assert found.status_code in (400, 404, 410)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_other_methods_are_refused(any_client, method):
    assert any_client.request(method, f"/v1/stream-offset/s?time={TIME}").status_code == 405
