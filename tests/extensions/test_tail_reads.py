"""`?tail=N`: the last N messages of a stream; in a stream of bytes, the last N appends."""

import json
import random

import pytest

from mainstem import limits

ROOT = "/v1/stream/"
TEXT = "text/plain"
JSON = "application/json"


def append(client, path, body, content_type):
    reply = client.post(ROOT + path, headers={"content-type": content_type}, content=body)
    assert reply.status_code == 204
    return reply.headers["stream-next-offset"]


def tail(client, path, count):
    page = client.get(f"{ROOT}{path}?tail={count}")
    assert page.status_code == 200, page.text
    return page


@pytest.fixture
def numbers(client, path):
    """The numbers 0 to 9, in batches of 3, 1, 4 and 2."""
    client.put(ROOT + path, headers={"content-type": JSON})
    for batch in ("[0,1,2]", "3", "[4,5,6,7]", "[8, 9]"):
        append(client, path, batch.encode(), JSON)
    return path


@pytest.mark.parametrize("count", [*range(1, 13), limits.TAIL_MESSAGES_MAX])
def test_the_last_messages_are_counted_across_and_within_batches(client, numbers, count):
    page = tail(client, numbers, count)
    assert page.json() == list(range(10))[-count:]
    assert page.headers["stream-up-to-date"] == "true"
    assert page.headers["stream-next-offset"] == client.head(ROOT + numbers).headers["stream-next-offset"]


def test_a_reader_continues_after_a_tail_read(client, numbers):
    offset = tail(client, numbers, 2).headers["stream-next-offset"]
    append(client, numbers, b"[10,11]", JSON)
    assert client.get(f"{ROOT}{numbers}?offset={offset}").json() == [10, 11]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_in_a_binary_stream_appends_are_counted(client, path, count):
    parts = [b"one", b"two\n", b"", b"four"]
    client.put(ROOT + path, headers={"content-type": TEXT}, content=parts[0])
    for part in parts[1:]:
        if part:
            append(client, path, part, TEXT)
    expected = b"".join([part for part in parts if part][-count:])
    assert tail(client, path, count).content == expected


def test_an_empty_stream_has_an_empty_tail(client, path):
    client.put(ROOT + path, headers={"content-type": JSON})
    assert tail(client, path, 5).json() == []
    client.put(ROOT + path + "/text", headers={"content-type": TEXT})
    assert tail(client, path + "/text", 5).content == b""


def test_a_closed_stream_is_marked_as_closed_at_its_end(client, numbers):
    assert "stream-closed" not in tail(client, numbers, 3).headers
    client.post(ROOT + numbers, headers={"stream-closed": "true"})
    page = tail(client, numbers, 3)
    assert page.json() == [7, 8, 9]
    assert page.headers["stream-closed"] == "true"


def test_a_tail_read_can_be_repeated(client, numbers):
    page = tail(client, numbers, 3)
    same = client.get(f"{ROOT}{numbers}?tail=3", headers={"if-none-match": page.headers["etag"]})
    assert same.status_code == 304
    append(client, numbers, b"10", JSON)
    assert client.get(f"{ROOT}{numbers}?tail=3", headers={"if-none-match": page.headers["etag"]}).json() == [8, 9, 10]


@pytest.mark.parametrize("content_type", [TEXT, JSON])
@pytest.mark.parametrize("page_bytes", [1, 6])
def test_a_long_tail_is_read_in_pages(start_thread, connect_to, content_type, page_bytes):
    client = connect_to(start_thread(page_bytes=page_bytes))
    client.put(ROOT + "s", headers={"content-type": content_type})
    for number in range(10):
        append(client, "s", b"%d" % number, content_type)
    page = tail(client, "s", 7)
    found = page.text.strip("[]").replace(",", "")
    while "stream-up-to-date" not in page.headers:
        page = client.get(f"{ROOT}s?offset={page.headers['stream-next-offset']}")
        found += page.text.strip("[]").replace(",", "")
    assert found == "3456789"


@pytest.mark.parametrize("content_type", [TEXT, JSON])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_tail_of_a_fork_reaches_into_what_it_inherits(start_thread, connect_to, tmp_path, content_type, restarted):
    """Compare with a list: chains of forks that begin within batches, and every count."""
    settings = {"data": str(tmp_path / "kept")}
    server = start_thread(**settings)
    client = connect_to(server)
    chance = random.Random(content_type)
    streams = {"0": [[0, 1, 2], [3, 4]]}
    client.put(ROOT + "0", headers={"content-type": content_type})
    offsets = {"0": [client.head(ROOT + "0").headers["stream-next-offset"]]}
    for batch in streams["0"]:
        offsets["0"].append(append(client, "0", encode(batch, content_type), content_type))
    for level in range(1, 5):
        source, name = str(level - 1), str(level)
        at = chance.randrange(len(streams[source]))
        taken = chance.randint(0, len(streams[source][at]))
        headers = {
            "stream-forked-from": ROOT + source,
            "stream-fork-offset": offsets[source][at],
            "stream-fork-sub-offset": str(taken),
        }
        made = client.put(ROOT + name, headers=headers)
        assert made.status_code == 201
        streams[name] = [*streams[source][:at], *([streams[source][at][:taken]] if taken else [])]
        offsets[name] = [*offsets[source][: at + 1], *([made.headers["stream-next-offset"]] if taken else [])]
        for _ in range(chance.randint(0, 2)):
            batch = [chance.randrange(10) for _ in range(chance.randint(1, 3))]
            streams[name].append(batch)
            offsets[name].append(append(client, name, encode(batch, content_type), content_type))
        append(client, source, encode([9], content_type), content_type)  # after the fork, so not part of it
        streams[source].append([9])
    if restarted:
        server.stop()
        client = connect_to(start_thread(**settings))
    for name, batches in streams.items():
        units = [[unit] for batch in batches for unit in batch] if content_type == JSON else batches
        for count in range(1, len(units) + 2):
            expected = [unit for units in units[-count:] for unit in units]
            assert decode(tail(client, name, count)) == expected, (name, count)


def encode(batch, content_type):
    return str(batch).encode() if content_type == JSON else "".join(map(str, batch)).encode()


def decode(page):
    return page.json() if page.headers["content-type"] == JSON else [int(digit) for digit in page.text]


@pytest.mark.parametrize(
    "query",
    [
        "tail=0",
        "tail=-1",
        "tail=x",
        "tail=",
        "tail=1.0",
        f"tail={limits.TAIL_MESSAGES_MAX + 1}",
        "tail=1&tail=2",
        "tail=1&offset=-1",
        "tail=1&offset=now",
        "tail=1&live=sse",
        "tail=1&live=long-poll",
        "tail=1&live=long-poll&offset=-1",
    ],
)
def test_an_invalid_query_gets_400(client, numbers, query):
    refused = client.get(f"{ROOT}{numbers}?{query}")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_query")


def test_a_missing_stream_has_no_tail(client, path):
    assert client.get(f"{ROOT}{path}?tail=1").status_code == 404


def test_a_tail_of_large_messages_ends_within_its_record_and_continues_from_there(client, path):
    client.put(ROOT + path, headers={"content-type": JSON})
    texts = [f"{number}".ljust(100_000, "x") for number in range(40)]
    append(client, path, json.dumps(texts).encode(), JSON)
    page = tail(client, path, 30)
    got = page.json()
    assert got == texts[10 : 10 + len(got)]
    assert len(page.content) <= limits.PAGE_BYTES
    assert "stream-up-to-date" not in page.headers
    rest = client.get(f"{ROOT}{path}?offset={page.headers['stream-next-offset']}")
    assert got + rest.json() == texts[10:]
