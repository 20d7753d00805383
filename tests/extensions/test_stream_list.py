"""`GET /v1/streams?prefix=&after=&limit=`: the existing streams, sorted by path, in pages."""

from urllib.parse import quote

import pytest

from mainstem import limits
from mainstem.testing.clock import FakeClock

ROOT = "/v1/stream/"
TEXT = {"content-type": "text/plain"}


def create(client, *paths, **headers):
    for path in paths:
        made = client.put(ROOT + path, headers=TEXT | {name.replace("_", "-"): text for name, text in headers.items()})
        assert made.status_code == 201, made.text


def names(reply):
    assert reply.status_code == 200, reply.text
    return [stream["path"] for stream in reply.json()["streams"]]


def read_all(client, limit, **params):
    """Return the streams of all pages, checking that every page but the last is full."""
    found, after = [], None
    while True:
        page = client.get("/v1/streams", params=params | {"limit": limit} | ({} if after is None else {"after": after}))
        found += names(page)
        after = page.json()["next"]
        if after is None:
            return found
        assert len(names(page)) == limit
        assert after == found[-1]


@pytest.fixture
def fresh(start_thread, connect_to):
    return connect_to(start_thread())


def test_without_streams_the_list_is_empty(fresh):
    reply = fresh.get("/v1/streams")
    assert reply.json() == {"streams": [], "next": None}
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"


def test_a_stream_is_described(client, path):
    client.put(ROOT + path + "/a", headers=TEXT | {"stream-ttl": "3600"}, content=b"data")
    client.post(ROOT + path + "/a", headers={"stream-closed": "true"})
    client.put(
        ROOT + path + "/b",
        headers={"stream-forked-from": ROOT + path + "/a", "stream-expires-at": "2999-01-01T00:00:00Z"},
    )
    a, b = client.get("/v1/streams", params={"prefix": path + "/"}).json()["streams"]
    assert a.pop("created_at").endswith("Z")
    assert a == {
        "path": path + "/a",
        "content_type": "text/plain",
        "next_offset": "0000000000000000_0000000000000004",
        "earliest_offset": "0000000000000000_0000000000000000",
        "closed": True,
        "ttl_seconds": 3600,
        "expires_at": None,
        "forked_from": None,
        "messages": 1,
        "bytes": 4,
    }
    assert (b["messages"], b["bytes"]) == (0, 0)  # it shares all its data
    assert (b["forked_from"], b["closed"], b["ttl_seconds"], b["expires_at"]) == (
        path + "/a",
        False,
        None,
        "2999-01-01T00:00:00Z",
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_of_any_size_show_every_stream_once_and_in_order(client, path, limit):
    expected = sorted(f"{path}/{name}" for name in ["a", "a/b", "a b", "b", "B", "é", "z/z/z", "ä", "~", "\U0001f600"])
    for name in expected:
        client.put(ROOT + "".join(f"%{byte:02X}" for byte in name.encode()), headers=TEXT)
    assert read_all(client, limit, prefix=path + "/") == expected


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a", ["a", "a%b", "a/1", "a/2", "a_b", "ab"]),
        ("a/", ["a/1", "a/2"]),
        ("a%", ["a%b"]),
        ("a_", ["a_b"]),
        ("a*", []),
        ("A", []),
        ("a/1", ["a/1"]),
        ("a/1x", []),
        ("zz", []),
    ],
)
def test_a_prefix_is_plain_text(client, path, prefix, expected):
    """Characters with a special meaning in a database or a shell have none here."""
    for name in ("a", "ab", "a/1", "a/2", "a_b", "a%25b", "b"):
        client.put(f"{ROOT}{path}/{name}", headers=TEXT)
    found = client.get("/v1/streams", params={"prefix": f"{path}/{prefix}"})
    assert names(found) == [f"{path}/{name}" for name in expected]


def test_after_need_not_name_a_stream(client, path):
    create(client, path + "/a", path + "/c")
    assert names(client.get("/v1/streams", params={"prefix": path + "/", "after": path + "/b"})) == [path + "/c"]
    assert names(client.get("/v1/streams", params={"prefix": path + "/", "after": path + "/d"})) == []
    assert names(client.get("/v1/streams", params={"prefix": path + "/", "after": "zzzz"})) == []


def test_deleted_streams_are_not_listed_even_if_forks_still_read_them(client, path):
    create(client, *(f"{path}/{name}" for name in "abcd"))
    client.put(f"{ROOT}{path}/e", headers={"stream-forked-from": f"{ROOT}{path}/b"})
    client.delete(f"{ROOT}{path}/a")
    client.delete(f"{ROOT}{path}/b")
    assert read_all(client, 1, prefix=path + "/") == [path + "/c", path + "/d", path + "/e"]


def test_expired_streams_are_not_listed_even_before_they_are_reaped(start_thread, connect_to, monkeypatch):
    monkeypatch.setattr(limits, "REAP_EVERY_S", 3600.0)
    clock = FakeClock()
    client = connect_to(start_thread(clock_us=clock))
    create(client, "a", "c", stream_ttl="10")
    create(client, "b")
    create(client, "d", stream_expires_at="2023-11-14T22:13:25Z")
    assert names(client.get("/v1/streams")) == ["a", "b", "c", "d"]
    clock.advance(9)
    assert names(client.get("/v1/streams")) == ["a", "b", "c"]
    client.get(ROOT + "c")  # reading keeps it alive; listing does not
    clock.advance(9)
    assert names(client.get("/v1/streams")) == ["b", "c"]


def test_many_deleted_streams_between_two_do_not_hide_the_second(start_thread, connect_to, monkeypatch):
    monkeypatch.setattr(limits, "SCAN_PAGE", 3)
    client = connect_to(start_thread())
    create(client, "a", *(f"m/{number}" for number in range(10)), "z")
    for number in range(10):
        client.delete(f"{ROOT}m/{number}")
    assert read_all(client, 1) == ["a", "z"]
    assert names(client.get("/v1/streams")) == ["a", "z"]


def test_the_default_page_and_the_largest_page_are_limited(start_thread, connect_to, monkeypatch):
    monkeypatch.setattr(limits, "LISTED_STREAMS", 4)
    monkeypatch.setattr(limits, "LISTED_STREAMS_MAX", 6)
    client = connect_to(start_thread())
    create(client, *"abcdefgh")
    assert names(client.get("/v1/streams")) == list("abcd")
    assert names(client.get("/v1/streams?limit=6")) == list("abcdef")
    assert client.get("/v1/streams?limit=7").status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=1.5",
        "limit=x",
        "limit=",
        "limit=99999999999999999999",
        "limit=%D9%A3",
        "limit=1&limit=2",
        "prefix=a&prefix=b",
        "after=a&after=b",
        "search=a&search=b",
        "x=" + "y" * 20_000,
    ],
)
def test_invalid_parameters_get_400(client, query):
    refused = client.get("/v1/streams?" + query)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_query")


def test_the_list_is_read_only(client):
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, "/v1/streams").status_code in {404, 405}


def search_all(client, search, **params):
    """Return what a search finds in all pages, and the number of pages."""
    found, after, pages = [], "", 0
    while after is not None:
        page = client.get("/v1/streams", params=params | {"search": search, "after": after})
        found += names(page)
        after = page.json()["next"]
        pages += 1
    return found, pages


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("chat", ["Chat/1", "chat/2", "x/CHAT"]),
        ("CHAT", ["Chat/1", "chat/2", "x/CHAT"]),
        ("hAt/", ["Chat/1", "chat/2"]),
        ("straße", ["STRASSE", "straße"]),
        ("É", ["é"]),
        ("%", ["a%b"]),
        ("_", ["a_b"]),
        ("*", []),
        ("<script>", ["<script>"]),
        ("nowhere", []),
    ],
)
def test_a_search_finds_any_part_of_a_path_and_ignores_case(client, path, search, expected):
    for name in ("Chat/1", "chat/2", "x/CHAT", "STRASSE", "straße", "é", "a%b", "a_b", "<script>", "other"):
        client.put(ROOT + path + "/" + quote(name), headers=TEXT)
    found, pages = search_all(client, search, prefix=path + "/")
    assert sorted(found) == sorted(f"{path}/{name}" for name in expected)
    assert pages == 1


def test_an_empty_search_finds_everything(client, path):
    create(client, path + "/a", path + "/b")
    assert search_all(client, "", prefix=path) == ([path + "/a", path + "/b"], 1)


def test_a_search_looks_at_a_bounded_number_of_streams_per_request(start_thread, connect_to, monkeypatch):
    monkeypatch.setattr(limits, "SEARCHED_STREAMS_MAX", 4)
    monkeypatch.setattr(limits, "SCAN_PAGE", 3)
    client = connect_to(start_thread())
    create(client, *(f"a/{number}" for number in range(10)), "b/needle", "c/needle")
    client.delete(ROOT + "a/9")
    first = client.get("/v1/streams", params={"search": "needle"})
    assert (names(first), first.json()["next"]) == ([], "a/3")
    assert search_all(client, "needle") == (["b/needle", "c/needle"], 3)
    assert search_all(client, "needle", limit=1)[0] == ["b/needle", "c/needle"]
    assert search_all(client, "a/", limit=2)[0] == [f"a/{number}" for number in range(9)]
    assert names(client.get("/v1/streams")) == [*(f"a/{number}" for number in range(9)), "b/needle", "c/needle"]
