"""`GET /v1/stream-set`: many streams over one connection, without loss or duplicates across reconnects."""

import base64
import json

import pytest

from mainstem import limits
from tests.support.event_streams import open_events
from tests.support.waits import eventually

ROOT = "/v1/stream/"
TEXT = "text/plain"
JSON = "application/json"
BINARY = "application/octet-stream"


def create(client, path, content_type=TEXT, body=b""):
    assert client.put(ROOT + path, headers={"content-type": content_type}, content=body).status_code == 201
    return path


def append(client, path, body, content_type=TEXT):
    reply = client.post(ROOT + path, headers={"content-type": content_type}, content=body)
    assert reply.status_code == 204, reply.text
    return reply.headers["stream-next-offset"]


def close(client, *paths):
    for path in paths:
        assert client.post(ROOT + path, headers={"stream-closed": "true"}).status_code == 204


def watch(client, *paths, headers=None, **params):
    query = [("stream", path) for path in paths] + list({"live": "sse", **params}.items())
    return open_events(client, "/v1/stream-set", params=query, headers=headers)


class Reader:
    """Reassembles the data of every member."""

    def __init__(self):
        self.data = {}
        self.token = None
        self.closed = set()
        self.deleted = set()

    def take(self, event):
        self.token = event.id
        told = event.json
        path = told["stream"]
        if event.name == "data":
            value = told["data"]
            assert value, "an event without data must not be a data event"
            if told["encoding"] == "json":
                self.data.setdefault(path, []).extend(value)
            elif told["encoding"] == "text":
                self.data[path] = self.data.get(path, "") + value
            else:
                self.data[path] = self.data.get(path, b"") + base64.b64decode(value)
        else:
            assert "data" not in told
        if told.get("closed"):
            self.closed.add(path)
        if told.get("deleted"):
            assert event.name == "deleted"
            self.deleted.add(path)

    def read(self, events, until):
        while not until():
            self.take(next(events))

    def drain(self, events):
        for event in events:
            self.take(event)


@pytest.fixture
def trio(client, path):
    """A JSON, a text and a binary stream, each with some data."""
    return (
        create(client, path + "/json", JSON, b'[1, {"a": "b"}]'),
        create(client, path + "/text", TEXT, "grüße\r\nzwei".encode()),
        create(client, path + "/binary", BINARY, bytes(range(256))),
    )


def test_a_set_catches_up_and_follows_streams_of_all_kinds(client, trio):
    jsons, text, binary = trio
    reader = Reader()
    with watch(client, *trio) as events:
        reader.read(events, lambda: len(reader.data) == 3)
        assert reader.data == {
            jsons: [1, {"a": "b"}],
            text: "grüße\r\nzwei",
            binary: bytes(range(256)),
        }
        append(client, jsons, b'["three"]', JSON)
        append(client, text, b" drei")
        append(client, binary, b"\0", BINARY)
        reader.read(events, lambda: len(reader.data[binary]) == 257)
        close(client, *trio)
        reader.drain(events)
    assert reader.data == {
        jsons: [1, {"a": "b"}, "three"],
        text: "grüße\r\nzwei drei",
        binary: bytes(range(256)) + b"\0",
    }
    assert reader.closed == set(trio)


def test_every_event_names_its_stream_its_offset_and_its_encoding(client, trio):
    with watch(client, *trio) as events:
        first = [next(events) for _ in trio]
    assert [event.json["stream"] for event in first] == list(trio)
    assert [event.json["encoding"] for event in first] == ["json", "text", "base64"]
    for event in first:
        told = event.json
        assert told["nextOffset"] == client.head(ROOT + told["stream"]).headers["stream-next-offset"]
        assert told["upToDate"] is True
        assert event.id


def test_a_token_resumes_all_streams_without_loss_or_duplicates(client, trio):
    """Reconnect after every single event, alternately with `resume` and with Last-Event-ID."""
    jsons, text, binary = trio
    reader = Reader()
    numbers, letters, raw = [1, {"a": "b"}], "grüße\r\nzwei", bytes(range(256))
    for step in range(12):
        numbers.append(step)
        letters += f"é{step}"
        raw += bytes([step])
        append(client, jsons, str(step).encode(), JSON)
        append(client, text, f"é{step}".encode())
        append(client, binary, bytes([step]), BINARY)
        by_header = {"last-event-id": reader.token} if reader.token and step % 2 else None
        by_query = {"resume": reader.token} if reader.token and not step % 2 else {}
        with watch(client, *trio, headers=by_header, **by_query) as events:
            reader.take(next(events))
    with watch(client, *trio, resume=reader.token) as events:
        complete = {jsons: numbers, text: letters, binary: raw}
        reader.read(events, lambda: reader.data == complete)


def test_the_header_counts_more_than_the_parameter(client, path):
    """A browser reconnects with the same URL and the id of the last event in a header."""
    name = create(client, path, TEXT, b"one")
    reader = Reader()
    with watch(client, name) as events:
        reader.take(next(events))
    first = reader.token
    append(client, name, b"two")
    with watch(client, name, resume=first) as events:
        reader.take(next(events))
    append(client, name, b"three")
    with watch(client, name, headers={"last-event-id": reader.token}, resume=first) as events:
        reader.take(next(events))
    assert reader.data[name] == "onetwothree"


def test_a_stream_that_joins_a_set_starts_from_its_beginning(client, path):
    one, two = create(client, path + "/1", TEXT, b"one"), create(client, path + "/2", TEXT, b"two")
    reader = Reader()
    with watch(client, one) as events:
        reader.take(next(events))
    with watch(client, one, two, resume=reader.token) as events:
        reader.read(events, lambda: two in reader.data)
    assert reader.data == {one: "one", two: "two"}


def test_one_offset_may_be_given_for_all_streams(client, path):
    one, two = create(client, path + "/1", TEXT, b"old"), create(client, path + "/2", TEXT, b"old")
    reader = Reader()
    with watch(client, one, two, offset="now") as events:
        for _ in range(2):
            reader.take(next(events))  # at their ends
        append(client, two, b"new")
        reader.take(next(events))
    assert reader.data == {two: "new"}


def test_a_character_that_was_split_across_appends_arrives_whole(client, path):
    name, other = create(client, path + "/text"), create(client, path + "/other")
    reader = Reader()
    euro = "€".encode()
    append(client, name, b"a" + euro[:1])
    with watch(client, name, other) as events:
        reader.read(events, lambda: reader.data.get(name) == "a")
        append(client, name, euro[1:2])
        append(client, other, b"meanwhile")
        reader.read(events, lambda: other in reader.data)
        append(client, name, euro[2:] + b"b")
        reader.read(events, lambda: reader.data[name] == "a€b")
    assert reader.data == {name: "a€b", other: "meanwhile"}


def test_a_token_from_within_a_character_loses_nothing(client, path):
    name = create(client, path)
    append(client, name, b"a" + "€".encode()[:2])
    reader = Reader()
    with watch(client, name) as events:
        reader.take(next(events))
    append(client, name, "€".encode()[2:])
    with watch(client, name, resume=reader.token) as events:
        reader.take(next(events))
    assert reader.data[name] == "a€"


def test_json_with_line_breaks_stays_one_event(client, path):
    name = create(client, path, JSON, b'{\r\n "a":\n 1\r}')
    with watch(client, name) as events:
        assert next(events).json["data"] == [{"a": 1}]


def test_a_long_stream_does_not_delay_the_others(client, path):
    long = create(client, path + "/long", BINARY)
    for _ in range(4):
        append(client, long, b"x" * 200_000, BINARY)
    short = create(client, path + "/short", TEXT, b"short")
    reader = Reader()
    with watch(client, long, short) as events:
        reader.read(events, lambda: short in reader.data)
        assert len(reader.data[long]) < 800_000
        reader.read(events, lambda: len(reader.data[long]) == 800_000)


def test_a_deleted_member_is_reported_and_the_others_continue(client, path):
    one, two = create(client, path + "/1", TEXT, b"one"), create(client, path + "/2", TEXT, b"two")
    reader = Reader()
    with watch(client, one, two) as events:
        reader.read(events, lambda: len(reader.data) == 2)
        client.delete(ROOT + one)
        reader.read(events, lambda: reader.deleted == {one})
        append(client, two, b" more")
        reader.read(events, lambda: reader.data[two] == "two more")
        create(client, one, TEXT, b"another life")  # a different stream
        close(client, two)
        reader.drain(events)
    assert reader.data == {one: "one", two: "two more"}
    assert reader.closed == {two}


def test_a_member_that_is_deleted_but_kept_for_its_forks_is_reported_as_deleted(client, path):
    one, two = create(client, path + "/1", TEXT, b"one"), create(client, path + "/2", TEXT, b"two")
    client.put(f"{ROOT}{path}/fork", headers={"stream-forked-from": ROOT + one})
    reader = Reader()
    with watch(client, one, two) as events:
        reader.read(events, lambda: len(reader.data) == 2)
        client.delete(ROOT + one)
        reader.read(events, lambda: reader.deleted == {one})


def test_the_response_ends_when_every_member_is_closed_or_deleted(client, path):
    paths = [create(client, f"{path}/{number}", TEXT, b"x") for number in range(3)]
    close(client, paths[0])
    reader = Reader()
    with watch(client, *paths) as events:
        reader.read(events, lambda: len(reader.data) == 3)
        close(client, paths[1])
        client.delete(ROOT + paths[2])
        reader.drain(events)
    assert (reader.closed, reader.deleted) == ({paths[0], paths[1]}, {paths[2]})


def test_a_reader_that_leaves_is_forgotten(server, client, path):
    paths = [create(client, f"{path}/{number}") for number in range(3)]
    live = server.app.live
    eventually(lambda: live.readers == 0)
    with watch(client, *paths) as events:
        next(events)
        assert live.readers == 3
    eventually(lambda: live.readers == 0)


def test_a_set_counts_as_a_live_read(start_thread, connect_to, monkeypatch):
    client = connect_to(start_thread())
    create(client, "a")
    create(client, "b")
    monkeypatch.setattr(limits, "LIVE_READERS_MAX", 2)
    with watch(client, "a", "b") as events:
        next(events)
        refused = client.get("/v1/stream-set?stream=a&live=sse")
        assert refused.status_code == 429
        assert "retry-after" in refused.headers


# Invalid requests


def token(**offsets):
    return base64.urlsafe_b64encode(json.dumps(offsets).encode()).decode().rstrip("=")


def ask_to_resume(client, path, resume, way):
    query = {"stream": path, "live": "sse"} | ({"resume": resume} if way == "query" else {})
    headers = {"last-event-id": resume.encode()} if way == "header" else {}
    return client.get("/v1/stream-set", params=query, headers=headers)


@pytest.mark.parametrize("way", ["query", "header"])
@pytest.mark.parametrize("bad", ["x", "!!!", "AAAA", "bnVsbA", "W10", "eyJhIjogMX0", "é"])
def test_a_token_that_is_not_from_a_set_gets_400(client, path, bad, way):
    create(client, path, TEXT, b"data")
    assert ask_to_resume(client, path, bad, way).status_code == 400


@pytest.mark.parametrize("way", ["query", "header"])
@pytest.mark.parametrize("offset", ["x", "", "0000000000000000_0000000000000099", "0000000000000001_0000000000000000"])
def test_a_token_with_an_invalid_offset_of_its_stream_gets_400(client, path, offset, way):
    create(client, path, TEXT, b"data")
    assert ask_to_resume(client, path, token(**{path: offset}), way).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "",
        "live=sse",
        "stream={p}",
        "stream={p}&live=long-poll",
        "stream={p}&live=sse&live=sse",
        "stream=&live=sse",
        "stream=a//b&live=sse",
        "stream={p}&live=sse&offset=x",
        "stream={p}&live=sse&offset=",
        "stream={p}&live=sse&" + "&".join(f"stream={number}" for number in range(100)),
    ],
)
def test_an_invalid_request_gets_400(client, path, query):
    create(client, path)
    assert client.get("/v1/stream-set?" + query.format(p=path)).status_code == 400


def test_a_repeated_header_gets_400(client, path):
    create(client, path)
    headers = [("last-event-id", token(x="1")), ("last-event-id", token(x="2"))]
    refused = client.get(f"/v1/stream-set?stream={path}&live=sse", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "repeated_header")


def test_a_missing_stream_gets_404(client, path):
    create(client, path)
    refused = client.get(f"/v1/stream-set?stream={path}&stream={path}/nowhere&live=sse")
    assert (refused.status_code, refused.json()["code"]) == (404, "stream_not_found")


def test_one_connection_carries_as_many_streams_as_allowed(client, path):
    paths = [create(client, f"{path}/{number}", TEXT, b"%d" % number) for number in range(limits.SET_STREAMS_MAX)]
    reader = Reader()
    with watch(client, *paths) as events:
        reader.read(events, lambda: len(reader.data) == len(paths))
    assert reader.data == {name: str(number) for number, name in enumerate(paths)}
    with watch(client, *paths, headers={"last-event-id": reader.token}) as events:
        append(client, paths[7], b"!")
        reader.read(events, lambda: reader.data[paths[7]] == "7!")
