"""GET without live: offsets, pages, ETags, caches and encodings."""

import json

import pytest

from mainstem import limits
from tests.support.encodings import DECODERS

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
CLOSE = {"stream-closed": "true"}


def offset(position):
    return f"{0:016d}_{position:016d}"


def read_pages(client, path, start="-1"):
    """Return every page up to the one that is marked as the last."""
    pages = []
    while True:
        pages.append(client.get(f"{path}?offset={start}"))
        assert pages[-1].status_code == 200
        start = pages[-1].headers["stream-next-offset"]
        if "stream-up-to-date" in pages[-1].headers:
            return pages


# Offsets


@pytest.mark.parametrize("query", ["", "?offset=-1", "?offset=%2D1", f"?offset={offset(0)}", "?live=false", "?x=y"])
def test_a_read_begins_at_the_beginning(client, text_stream, query):
    client.post(text_stream, headers=TEXT, content=b"hello")
    read = client.get(text_stream + query)
    assert (read.status_code, read.content) == (200, b"hello")
    assert read.headers["content-type"] == "text/plain"
    assert read.headers["stream-next-offset"] == offset(5)
    assert read.headers["stream-up-to-date"] == "true"
    assert "stream-closed" not in read.headers


def test_a_read_continues_where_another_one_ended(client, text_stream):
    ends = [
        client.post(text_stream, headers=TEXT, content=part).headers["stream-next-offset"] for part in (b"one", b"two")
    ]
    assert client.get(f"{text_stream}?offset={ends[0]}").content == b"two"
    at_end = client.get(f"{text_stream}?offset={ends[1]}")
    assert (at_end.status_code, at_end.content) == (200, b"")
    assert at_end.headers["stream-next-offset"] == ends[1]
    assert at_end.headers["stream-up-to-date"] == "true"


def test_a_json_read_from_any_offset_is_an_array(client, json_stream):
    first = client.post(json_stream, headers=JSON, content=b"[1,2]").headers["stream-next-offset"]
    last = client.post(json_stream, headers=JSON, content=b"3").headers["stream-next-offset"]
    assert client.get(f"{json_stream}?offset={first}").json() == [3]
    assert client.get(f"{json_stream}?offset={last}").json() == []


def test_now_is_the_end_and_is_never_cached_or_tagged(client, json_stream, path):
    end = client.post(json_stream, headers=JSON, content=b"1").headers["stream-next-offset"]
    now = client.get(f"{json_stream}?offset=now")
    assert (now.status_code, now.content) == (200, b"[]")
    assert now.headers["stream-next-offset"] == end
    assert now.headers["stream-up-to-date"] == "true"
    assert now.headers["cache-control"] == "no-store"
    assert "etag" not in now.headers
    client.put(path + "/text", headers=TEXT, content=b"data")
    assert client.get(f"{path}/text?offset=now").content == b""


@pytest.mark.parametrize(
    "query",
    [
        "offset=",
        "offset=0",
        "offset=abc",
        "offset=-2",
        "offset=NOW",
        "offset=%20-1",
        "offset=-1%00",
        "offset=%FF",
        "offset=" + "9" * 3000,
        f"offset={offset(0)}x",
        f"offset={offset(0)}%0A",
        f"offset={offset(6)}",
        f"offset={offset(10**16 - 1)}",
    ],
)
@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
def test_an_offset_that_the_server_did_not_give_returns_400(client, text_stream, query, live):
    client.post(text_stream, headers=TEXT, content=b"hello")
    refused = client.get(f"{text_stream}?{query}{live}")
    assert refused.status_code == 400
    assert refused.json()["code"] == "invalid_offset"


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1&offset=-1",
        f"offset=-1&offset={offset(0)}",
        "offset=-1&live=sse&live=sse",
        "offset=-1&live=long-poll&cursor=1&cursor=2",
        "offset=-1&live=",
        "offset=-1&live=true",
        "offset=-1&live=SSE",
        "offset=-1&live=websocket",
        "live=long-poll",
        "live=sse",
        "x=" + "y" * limits.QUERY_BYTES_MAX,
    ],
)
def test_a_malformed_query_returns_400(client, text_stream, query):
    refused = client.get(f"{text_stream}?{query}")
    assert refused.status_code == 400
    assert refused.json()["code"] == "invalid_query"


@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
def test_an_offset_within_a_json_message_returns_400(client, json_stream, live):
    client.post(json_stream, headers=JSON, content=b'{"a":"b"}')
    refused = client.get(f"{json_stream}?offset={offset(3)}{live}")
    assert refused.status_code == 400
    assert refused.json()["code"] == "invalid_offset"


def test_a_read_that_reaches_the_end_of_a_closed_stream_sends_stream_closed(client, text_stream):
    middle = client.post(text_stream, headers=TEXT, content=b"data").headers["stream-next-offset"]
    client.post(text_stream, headers=TEXT | CLOSE, content=b"end")
    assert client.get(text_stream).headers["stream-closed"] == "true"
    assert client.get(f"{text_stream}?offset={middle}").headers["stream-closed"] == "true"
    at_end = client.get(f"{text_stream}?offset={offset(7)}")
    assert (at_end.content, at_end.headers["stream-closed"], at_end.headers["stream-up-to-date"]) == (
        b"",
        "true",
        "true",
    )
    now = client.get(f"{text_stream}?offset=now")
    assert (now.headers["stream-closed"], now.headers["stream-up-to-date"]) == ("true", "true")


# Pages


@pytest.mark.parametrize("store", ["sqlite", "memory"])
@pytest.mark.parametrize("page_bytes", [1, 7, 64, 100_000])
def test_pages_of_bytes_together_are_exactly_the_data(start_thread, connect_to, path, store, page_bytes):
    client = connect_to(start_thread(page_bytes=page_bytes, store=store))
    client.put(path, headers=TEXT)
    parts = [b"x", b"0123456789" * 3, "é€🌊".encode(), b"\n", b"z" * 41]
    for part in parts:
        client.post(path, headers=TEXT, content=part)
    client.post(path, headers=CLOSE)
    pages = read_pages(client, path)
    assert b"".join(page.content for page in pages) == b"".join(parts)
    assert all(0 < len(page.content) <= page_bytes for page in pages)
    assert [("stream-closed" in page.headers) for page in pages] == [False] * (len(pages) - 1) + [True]
    assert (len(pages) > 1) == (page_bytes < 83)


@pytest.mark.parametrize("store", ["sqlite", "memory"])
@pytest.mark.parametrize("page_bytes", [1, 30, 100_000])
def test_pages_of_json_together_are_exactly_the_messages(start_thread, connect_to, path, store, page_bytes):
    client = connect_to(start_thread(page_bytes=page_bytes, store=store))
    client.put(path, headers=JSON)
    messages = [{"n": number, "text": "é" * number} for number in range(12)]
    for start in range(0, 12, 3):
        client.post(path, headers=JSON, json=messages[start : start + 3])
    pages = read_pages(client, path)
    assert [message for page in pages for message in page.json()] == messages
    assert len(pages) == (4 if page_bytes < 100 else 1)
    for page in pages[:-1]:
        assert "stream-up-to-date" not in page.headers


def test_a_page_never_changes_while_the_stream_grows(start_thread, connect_to, path):
    client = connect_to(start_thread(page_bytes=10))
    client.put(path, headers=TEXT, content=b"0123456789abc")
    before = client.get(path)
    client.post(path, headers=TEXT, content=b"more")
    after = client.get(path)
    assert (before.content, before.headers["etag"]) == (after.content, after.headers["etag"])


# ETags and caches


def test_a_matching_etag_returns_304_without_a_body(client, text_stream):
    client.post(text_stream, headers=TEXT, content=b"data")
    read = client.get(text_stream)
    for tag in (read.headers["etag"], f'"other", W/{read.headers["etag"]}', "*"):
        same = client.get(text_stream, headers={"if-none-match": tag})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["etag"] == read.headers["etag"]
        assert same.headers["stream-next-offset"] == offset(4)
    assert client.get(text_stream, headers={"if-none-match": '"other"'}).status_code == 200


def test_an_etag_changes_with_the_data_the_range_and_the_end(client, text_stream):
    def tag(query=""):
        return client.get(text_stream + query).headers["etag"]

    client.post(text_stream, headers=TEXT, content=b"data")
    tags = [tag(), tag(f"?offset={offset(2)}")]
    client.post(text_stream, headers=TEXT, content=b"more")
    tags.append(tag())
    client.post(text_stream, headers=CLOSE)
    tags.append(tag())
    assert len(set(tags)) == 4


def test_a_304_never_hides_a_close(client, text_stream):
    client.post(text_stream, headers=TEXT, content=b"data")
    tag = client.get(text_stream).headers["etag"]
    client.post(text_stream, headers=CLOSE)
    read = client.get(text_stream, headers={"if-none-match": tag})
    assert (read.status_code, read.headers["stream-closed"]) == (200, "true")


def test_the_etag_of_a_deleted_stream_never_matches_its_successor(client, path):
    client.put(path, headers=TEXT, content=b"same")
    tag = client.get(path).headers["etag"]
    client.delete(path)
    client.put(path, headers=TEXT, content=b"same")
    assert client.get(path, headers={"if-none-match": tag}).status_code == 200


def test_reads_may_be_cached_for_a_minute_and_replies_to_writes_may_not(client, text_stream):
    assert client.get(text_stream).headers["cache-control"] == "public, max-age=60, stale-while-revalidate=300"
    assert client.get(f"{text_stream}?offset=bad").headers["cache-control"] == "no-store"
    assert client.get("/v1/stream/never").headers["cache-control"] == "no-store"


# Encodings


@pytest.mark.parametrize("encoding", sorted(DECODERS))
@pytest.mark.parametrize("size", [limits.COMPRESS_BYTES_MIN, limits.COMPRESS_INLINE_BYTES_MAX * 4])
def test_large_reads_are_compressed_with_an_encoding_that_the_client_accepts(client, text_stream, encoding, size):
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    client.post(text_stream, headers=TEXT, content=data)
    with client.stream("GET", text_stream, headers={"accept-encoding": encoding}) as read:
        sent = b"".join(read.iter_raw())
        assert read.headers["content-encoding"] == encoding
        assert int(read.headers["content-length"]) == len(sent) < size
        assert "accept-encoding" in read.headers["vary"].lower()
    assert DECODERS[encoding](sent) == data


@pytest.mark.parametrize("accept", ["", "identity", "gzip;q=0", "nonsense", "br;q=0, *;q=0", ";;;,,,q=1"])
def test_without_a_common_encoding_the_data_is_not_compressed(client, text_stream, accept):
    client.post(text_stream, headers=TEXT, content=b"x" * 5000)
    read = client.get(text_stream, headers={"accept-encoding": accept})
    assert "content-encoding" not in read.headers
    assert read.content == b"x" * 5000


def test_small_reads_are_not_compressed(client, text_stream):
    client.post(text_stream, headers=TEXT, content=b"x" * (limits.COMPRESS_BYTES_MIN - 1))
    assert "content-encoding" not in client.get(text_stream, headers={"accept-encoding": "gzip"}).headers


def test_the_offset_of_a_compressed_page_counts_the_data(client, json_stream):
    client.post(json_stream, headers=JSON, content=json.dumps(list(range(2000))).encode())
    plain = client.get(json_stream, headers={"accept-encoding": "identity"})
    packed = client.get(json_stream, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json() == list(range(2000))
    assert packed.headers["stream-next-offset"] == plain.headers["stream-next-offset"]


# Other origins


def test_a_browser_may_use_every_feature_from_another_origin(client, text_stream):
    preflight = client.options(
        text_stream, headers={"origin": "https://example.org", "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    methods = {name.strip() for name in preflight.headers["access-control-allow-methods"].split(",")}
    assert {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} <= methods
    allowed = {name.strip().lower() for name in preflight.headers["access-control-allow-headers"].split(",")}
    assert allowed >= {
        "content-type",
        "authorization",
        "if-none-match",
        "if-match",
        "last-event-id",
        "stream-seq",
        "stream-ttl",
        "stream-expires-at",
        "stream-closed",
        "stream-forked-from",
        "stream-fork-offset",
        "stream-fork-sub-offset",
        "producer-id",
        "producer-epoch",
        "producer-seq",
    }


def test_every_reply_is_safe_and_readable_from_another_origin(client, text_stream):
    producer = {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
    origin = {"origin": "http://localhost:3000"}
    replies = [
        client.put(text_stream + "/b", headers=TEXT | origin | {"stream-ttl": "60"}),
        client.post(text_stream, headers=TEXT | origin | producer, content=b"x" * 5000),
        client.post(text_stream, headers=TEXT | origin | producer | {"producer-seq": "9"}, content=b"x"),
        client.get(text_stream, headers=origin | {"accept-encoding": "gzip"}),
        client.get(text_stream + "?offset=now", headers=origin),
        client.get(text_stream + "?offset=bad", headers=origin),
        client.head(text_stream + "/b", headers=origin),
        client.post(text_stream, headers=CLOSE | origin),
        client.get(text_stream + "?offset=-1&live=sse", headers=origin),
        client.post(text_stream, headers=TEXT | origin, content=b"x"),
        client.delete(text_stream, headers=origin),
        client.get(text_stream, headers=origin),
    ]
    assert [reply.status_code for reply in replies] == [201, 200, 409, 200, 200, 400, 200, 204, 200, 409, 204, 404]
    for reply in replies:
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
        assert reply.headers["access-control-allow-origin"] == "*"
        exposed = {name.strip().lower() for name in reply.headers["access-control-expose-headers"].split(",")}
        sent = {name for name in reply.headers if name.startswith(("stream-", "producer-"))}
        assert sent | {"etag", "location"} <= exposed


# The fast path


@pytest.fixture
def slow_reads(server, monkeypatch):
    """Count the reads that do not take the fast path."""
    reads = server.app.endpoints.streams.reads
    slow = []

    async def respond(source, *args, **options):
        slow.append(source.name)
        await type(reads).respond(reads, source, *args, **options)

    monkeypatch.setattr(reads, "respond", respond)
    return slow


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/json", "application/octet-stream", "text/html", "image/svg+xml"]
)
@pytest.mark.parametrize("closed", [{}, CLOSE], ids=["open", "closed"])
def test_the_fast_path_and_the_general_path_give_the_same_replies(client, path, slow_reads, content_type, closed):
    """The second of two equal reads takes the fast path, except for those that the page cache cannot answer."""
    first, second = b'["%b"]' % (b"x" * 2_000), b'["y"]'
    client.put(path, headers={"content-type": content_type}, content=first)
    middle = client.post(path, headers={"content-type": content_type}, content=second).headers["stream-next-offset"]
    client.post(path, headers={"content-type": content_type} | closed, content=second)
    etag = client.get(path).headers["etag"]
    slow_reads.clear()
    reads = [
        ({}, ""),
        ({}, "?offset=-1"),
        ({}, f"?offset={middle}"),
        ({}, f"?offset={middle}&cursor=5"),
        ({"accept-encoding": "gzip"}, "?offset=-1"),
        ({"accept-encoding": "br;q=0.5, *;q=0"}, "?offset=-1"),
        ({"accept-encoding": "identity"}, "?offset=-1"),
        ({"if-none-match": etag}, "?offset=-1"),
        ({"if-none-match": '"another"'}, "?offset=-1"),
        ({"origin": "https://example.org"}, "?offset=-1"),
    ]
    for headers, query in reads:
        replies = []
        for ways in (("long=way",), ()):  # an unknown parameter keeps the read off the fast path
            url = path + "?" + "&".join([part for part in (query[1:], *ways) if part])
            reply = client.get(url, headers=headers)
            del reply.headers["date"]
            replies.append((reply.status_code, list(reply.headers.items()), reply.content))
        assert replies[0] == replies[1]
    assert len(slow_reads) == len(reads)  # only those with the unknown parameter


def test_a_read_that_is_in_memory_sees_every_change(client, path, slow_reads):
    assert client.put(path, headers=TEXT, content=b"one").status_code == 201
    for _ in range(2):
        assert client.get(path).content == b"one"
    assert len(slow_reads) == 1
    client.post(path, headers=TEXT, content=b"two")
    for _ in range(2):
        grown = client.get(path)
        assert grown.content == b"onetwo"
        assert "stream-closed" not in grown.headers
    client.post(path, headers=CLOSE)
    for _ in range(2):
        assert client.get(path).headers["stream-closed"] == "true"
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    client.put(path, headers=TEXT, content=b"another life")
    for _ in range(2):
        assert client.get(path).content == b"another life"


def test_pages_from_memory_add_up_to_the_stream(client, start_thread, connect_to, path):
    client = connect_to(start_thread(page_bytes=1_000))
    client.put(path, headers=JSON)
    for number in range(50):
        client.post(path, headers=JSON, json=[{"number": number, "pad": "x" * 90}] * 2)
        for _ in range(2):
            at, messages = "-1", []
            while True:
                page = client.get(f"{path}?offset={at}")
                messages += page.json()
                at = page.headers["stream-next-offset"]
                if page.headers.get("stream-up-to-date"):
                    break
            assert [message["number"] for message in messages] == [n for n in range(number + 1) for _ in range(2)]


def test_bad_reads_of_a_stream_in_memory_get_their_errors(client, path):
    client.put(path, headers=TEXT, content=b"data")
    client.get(path)
    for query, status in (
        ("offset=0000000000000000_0000000000000005", 400),
        ("offset=nonsense", 400),
        ("offset=-1&offset=-1", 400),
        ("offset=-1&live=maybe", 400),
    ):
        for _ in range(2):
            assert client.get(f"{path}?{query}").status_code == status


def test_the_newest_append_is_read_from_memory(client, server, path, monkeypatch):
    store = server.app.store
    fetched = []

    async def read(*args):
        fetched.append(args)
        return await type(store).read(store, *args)

    client.put(path, headers=JSON, content=b"[1]")
    at = client.head(path).headers["stream-next-offset"]
    monkeypatch.setattr(store, "read", read)
    for number in range(3):
        client.post(path, headers=JSON, json=[{"number": number}])
        page = client.get(f"{path}?offset={at}")
        assert page.json() == [{"number": number}]
        assert page.headers["stream-up-to-date"] == "true"
        at = page.headers["stream-next-offset"]
    assert fetched == []
    assert client.get(path).json() == [1, *({"number": number} for number in range(3))]
    assert len(fetched) == 1
