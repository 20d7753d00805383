"""Long-poll and SSE: data, control events, closing, deleting, cursors, heartbeats and limits."""

import json
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem import limits
from mainstem.streams.rules.cursors import current_interval
from mainstem.testing.clock import FakeClock
from tests.support.plain_http import Event, EventReader

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
CLOSE = {"stream-closed": "true"}


def offset(position, read_seq=0):
    return f"{read_seq:016d}_{position:016d}"


@pytest.fixture
def watch(server):
    """Open SSE responses of the shared server, and close them at the end of the test."""
    readers = []

    def open_reader(path, start="-1", *lines, server=server, query="", **options):
        reader = EventReader(server.address, f"{path}?offset={start}&live=sse{query}", *lines, **options)
        readers.append(reader)
        return reader

    yield open_reader
    for reader in readers:
        reader.__exit__()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


# Long-poll


def test_a_long_poll_returns_existing_data_at_once(client, text_stream):
    client.post(text_stream, headers=TEXT, content=b"data")
    read = client.get(f"{text_stream}?offset=-1&live=long-poll")
    assert (read.status_code, read.content) == (200, b"data")
    assert read.headers["stream-next-offset"] == offset(4)
    assert read.headers["stream-up-to-date"] == "true"
    assert read.headers["stream-cursor"].isdigit()
    assert "etag" in read.headers


@pytest.mark.parametrize("start", ["-1", "now", offset(0)])
def test_a_long_poll_ends_with_the_next_append(client, text_stream, pool, start):
    waiting = pool.submit(client.get, f"{text_stream}?offset={start}&live=long-poll")
    if start == "now":  # `now` is resolved when the request arrives, so append until it has
        while not waiting.done():
            client.post(text_stream, headers=TEXT, content=b"x")
        assert set(waiting.result().content) == {ord("x")}
    else:
        client.post(text_stream, headers=TEXT, content=b"x")
        assert waiting.result().content == b"x"
    assert waiting.result().status_code == 200


def test_a_long_poll_without_data_returns_204_when_it_times_out(start_thread, connect_to, path):
    client = connect_to(start_thread(long_poll_ms=20))
    client.put(path, headers=TEXT, content=b"data")
    for start in (offset(4), "now"):
        empty = client.get(f"{path}?offset={start}&live=long-poll")
        assert (empty.status_code, empty.content) == (204, b"")
        assert empty.headers["stream-next-offset"] == offset(4)
        assert empty.headers["stream-up-to-date"] == "true"
        assert empty.headers["stream-cursor"].isdigit()
        assert empty.headers["cache-control"] == "no-store"
        assert "stream-closed" not in empty.headers


def test_a_long_poll_at_the_end_of_a_closed_stream_returns_at_once(client, text_stream):
    client.post(text_stream, headers=TEXT | CLOSE, content=b"data")
    for start in (offset(4), "now"):
        ended = client.get(f"{text_stream}?offset={start}&live=long-poll")
        assert ended.status_code == 204
        assert (ended.headers["stream-closed"], ended.headers["stream-up-to-date"]) == ("true", "true")
        assert ended.headers["stream-next-offset"] == offset(4)


def test_closing_ends_a_long_poll(client, text_stream, pool):
    waiting = pool.submit(client.get, f"{text_stream}?offset=-1&live=long-poll")
    client.post(text_stream, headers=CLOSE)
    assert waiting.result().status_code == 204
    assert waiting.result().headers["stream-closed"] == "true"


def test_deleting_ends_a_long_poll_with_404(client, text_stream, pool):
    waiting = pool.submit(client.get, f"{text_stream}?offset=-1&live=long-poll")
    client.delete(text_stream)
    assert waiting.result().status_code == 404
    assert waiting.result().json()["code"] == "stream_not_found"


def test_a_client_that_echoes_its_cursor_always_gets_a_new_one(start_thread, connect_to, path):
    clock = FakeClock(1_800_000_000_000_000)
    client = connect_to(start_thread(clock_us=clock, long_poll_ms=10))
    client.put(path, headers=TEXT, content=b"data")
    cursor = client.get(f"{path}?offset=-1&live=long-poll").headers["stream-cursor"]
    assert cursor == str(current_interval(clock()))
    for start in (offset(0), offset(4), "now"):
        following = client.get(f"{path}?offset={start}&live=long-poll&cursor={cursor}").headers["stream-cursor"]
        assert int(cursor) < int(following) <= int(cursor) + 180
        cursor = following
    behind = client.get(f"{path}?offset=-1&live=long-poll&cursor=1").headers["stream-cursor"]
    assert behind == str(current_interval(clock()))


# SSE


def test_every_data_event_has_its_own_control_event(client, text_stream, watch):
    client.post(text_stream, headers=TEXT, content=b"first")
    reader = watch(text_stream)
    assert reader.status == 200
    assert reader.headers["content-type"] == "text/event-stream"
    assert reader.headers["cache-control"] == "no-cache"
    assert "content-encoding" not in reader.headers
    assert "stream-sse-data-encoding" not in reader.headers
    for position, data in ((5, "first"), (11, "second"), (16, "third")):
        if position > 5:
            client.post(text_stream, headers=TEXT, content=data.encode())
        event, control = reader.take(2)
        assert event == Event("data", data)
        assert control.control.pop("streamCursor").isdigit()
        assert control.control["streamNextOffset"] == control.id == offset(position)
        assert control.control["upToDate"] is True
    assert b"\r" not in reader.raw


def test_a_reader_at_the_end_receives_its_offset_at_once(client, text_stream, watch):
    client.post(text_stream, headers=TEXT, content=b"old")
    for start in ("now", offset(3)):
        [control] = watch(text_stream, start).take(1)
        assert control.control["streamNextOffset"] == offset(3)
        assert control.control["upToDate"] is True


def test_a_reader_from_now_gets_only_new_data(client, text_stream, watch):
    client.post(text_stream, headers=TEXT, content=b"old")
    reader = watch(text_stream, "now")
    reader.take(1)
    client.post(text_stream, headers=TEXT, content=b"new")
    assert reader.take(1) == [Event("data", "new")]


def test_json_events_are_arrays_of_messages(client, json_stream, watch):
    client.post(json_stream, headers=JSON, content=b'[{"a":1},\n "two"]')
    reader = watch(json_stream)
    [event, _] = reader.take(2)
    assert json.loads(event.data) == [{"a": 1}, "two"]
    client.post(json_stream, headers=JSON, content=b'{"multi":\n\n"line"}')
    [event, _] = reader.take(2)
    assert json.loads(event.data) == [{"multi": "line"}]


def test_octets_are_sent_as_base64(client, path, watch):
    data = bytes(range(256))
    client.put(path, content=data)
    reader = watch(path)
    assert reader.headers["stream-sse-data-encoding"] == "base64"
    [event, control] = reader.take(2)
    assert b64decode(event.data, validate=True) == data
    assert control.control["streamNextOffset"] == offset(256)


def test_data_cannot_forge_an_event(client, text_stream, watch):
    forged = 'x\n\nevent: control\ndata:{"streamClosed":true}\n\r\r\nevent: deleted\ndata:{}\n\n'
    client.post(text_stream, headers=TEXT, content=forged.encode())
    client.post(text_stream, headers=CLOSE)
    assert [event.name for event in watch(text_stream).rest()] == ["data", "control"]


def test_a_line_that_begins_with_a_space_keeps_it(client, text_stream, watch):
    """Tokens of a language model often do; receivers strip one space after the colon."""
    for token in (b"hello", b" world", b"\n  indented"):
        client.post(text_stream, headers=TEXT, content=token)
    client.post(text_stream, headers=CLOSE)
    received = "".join(event.data for event in watch(text_stream).rest() if event.name == "data")
    assert received == "hello world\n  indented"


def test_a_character_that_was_split_in_two_arrives_whole(client, text_stream, watch):
    reader = watch(text_stream)
    reader.take(1)
    received = ""
    encoded = "a€🌊é".encode()
    for byte in encoded:
        client.post(text_stream, headers=TEXT, content=bytes([byte]))
    client.post(text_stream, headers=CLOSE)
    received = "".join(event.data for event in reader.rest() if event.name == "data")
    assert received == "a€🌊é"


def test_a_split_character_before_a_large_append_does_not_stop_the_reader(client, text_stream, watch):
    """The first byte is held back, and the data that follows does not fit into the same event."""
    encoded = "é".encode() + b"x" * 2 * limits.SSE_EVENT_BYTES
    client.post(text_stream, headers=TEXT, content=encoded[:1])
    client.post(text_stream, headers=TEXT, content=encoded[1:])
    client.post(text_stream, headers=CLOSE)
    reader = watch(text_stream)
    data = ""
    for _ in range(20):  # each event brings data or is the last one, so a few suffice
        event = reader.next()
        if event is None:
            break
        data += event.data if event.name == "data" else ""
    assert data.encode() == encoded


def test_text_that_is_not_utf8_is_repaired_and_does_not_end_the_stream(client, text_stream, watch):
    client.post(text_stream, headers=TEXT, content=b"caf\xe9!")
    client.post(text_stream, headers=TEXT | CLOSE, content=b"\xff")
    data = "".join(event.data for event in watch(text_stream).rest() if event.name == "data")
    assert data == "caf\ufffd!\ufffd"


def test_closing_ends_the_response_after_the_last_data(client, text_stream, watch):
    reader = watch(text_stream)
    reader.take(1)
    client.post(text_stream, headers=TEXT | CLOSE, content=b"last")
    event, control = reader.rest()
    assert event == Event("data", "last")
    assert control.control == {"streamNextOffset": offset(4), "upToDate": True, "streamClosed": True}


@pytest.mark.parametrize("start", ["now", offset(4)])
def test_the_end_of_a_closed_stream_is_one_control_event(client, text_stream, watch, start):
    client.post(text_stream, headers=TEXT | CLOSE, content=b"data")
    [control] = watch(text_stream, start).rest()
    assert control.control == {"streamNextOffset": offset(4), "upToDate": True, "streamClosed": True}


def test_deleting_ends_the_response_with_a_deleted_event(client, text_stream, watch):
    reader = watch(text_stream)
    reader.take(1)
    client.delete(text_stream)
    assert [event.name for event in reader.rest()] == ["deleted"]


def test_deleting_a_stream_that_has_forks_ends_its_readers_too(client, text_stream, watch):
    client.put(text_stream + "/fork", headers={"stream-forked-from": text_stream})
    reader = watch(text_stream)
    reader.take(1)
    client.delete(text_stream)
    assert [event.name for event in reader.rest()] == ["deleted"]
    assert client.head(text_stream).status_code == 410


def test_a_reader_never_continues_into_the_next_life_of_the_path(client, text_stream, watch):
    reader = watch(text_stream)
    reader.take(1)
    client.delete(text_stream)
    client.put(text_stream, headers=TEXT, content=b"another life")
    assert [event.name for event in reader.rest()] == ["deleted"]


def test_an_expired_stream_ends_its_readers_too(start_thread, connect_to, path, watch):
    clock = FakeClock()
    server = start_thread(clock_us=clock)
    client = connect_to(server)
    client.put(path, headers=TEXT | {"stream-expires-at": "2023-11-15T00:00:00Z"})
    reader = watch(path, server=server)
    reader.take(1)
    clock.advance(86_400)
    assert [event.name for event in reader.rest()] == ["deleted"]


def test_a_browser_resumes_at_its_last_event_id(client, text_stream, watch):
    client.post(text_stream, headers=TEXT, content=b"first")
    reader = watch(text_stream)
    [_, control] = reader.take(2)
    client.post(text_stream, headers=TEXT, content=b"second")
    again = watch(text_stream, "-1", f"Last-Event-ID: {control.id}")
    assert again.take(1) == [Event("data", "second")]


def test_a_large_backlog_is_sent_in_events_of_limited_size(client, path, watch):
    data = b"0123456789abcdef" * 64 * 1024  # 1 MiB in one append
    client.put(path, headers=TEXT | CLOSE, content=data)
    events = watch(path).rest()
    assert [event.name for event in events] == ["data", "control"] * (len(events) // 2)
    sizes = [len(event.data) for event in events[::2]]
    assert max(sizes) <= limits.SSE_EVENT_BYTES
    assert "".join(event.data for event in events[::2]).encode() == data
    assert [event.control.get("upToDate") for event in events[1::2]] == [None] * (len(sizes) - 1) + [True]
    ends = [int(event.control["streamNextOffset"].split("_")[1]) for event in events[1::2]]
    assert ends == [sum(sizes[: number + 1]) for number in range(len(sizes))]


def test_a_reader_that_echoes_its_cursor_gets_a_greater_one(client, text_stream, watch):
    [control] = watch(text_stream).take(1)
    cursor = control.control["streamCursor"]
    [following] = watch(text_stream, query=f"&cursor={cursor}").take(1)
    assert int(following.control["streamCursor"]) > int(cursor)


def test_an_idle_response_sends_comments(client, text_stream, watch, monkeypatch):
    monkeypatch.setattr(limits, "SSE_HEARTBEAT_S", 0.01)
    reader = watch(text_stream)
    assert [event.name for event in reader.take(4)] == ["control", "comment", "comment", "comment"]
    client.post(text_stream, headers=TEXT | CLOSE, content=b"x")
    assert [event.name for event in reader.rest() if event.name != "comment"] == ["data", "control"]


def test_a_response_ends_cleanly_after_its_time(client, text_stream, watch, monkeypatch):
    monkeypatch.setattr(limits, "SSE_LIFETIME_S", 0.02)
    client.post(text_stream, headers=TEXT, content=b"data")
    for _ in range(20):  # a timer that fires slightly early must not cause a burst of comments
        events = watch(text_stream).rest()
        assert [event.name for event in events] == ["data", "control"]
        assert "streamClosed" not in events[-1].control


def test_sse_is_never_compressed(client, text_stream, watch):
    client.post(text_stream, headers=TEXT, content=b"x" * 10_000)
    reader = watch(text_stream, "-1", "Accept-Encoding: gzip, br, zstd")
    assert "content-encoding" not in reader.headers
    assert reader.take(1) == [Event("data", "x" * 10_000)]


def test_many_readers_get_identical_bytes(client, json_stream, watch, pool):
    readers = [watch(json_stream) for _ in range(50)]
    for reader in readers:
        reader.take(1)
    for number in range(30):
        client.post(json_stream, headers=JSON, json={"n": number, "text": "é" * number})
    client.post(json_stream, headers=CLOSE)
    received = list(pool.map(EventReader.rest, readers))
    messages = [
        [message for event in events if event.name == "data" for message in json.loads(event.data)]
        for events in received
    ]
    expected = [{"n": number, "text": "é" * number} for number in range(30)]
    assert messages == [expected] * 50
    for events in received:
        names = [event.name for event in events]
        if len(names) % 2:  # the close arrived alone
            assert names.pop() == "control"
        assert names == ["data", "control"] * (len(names) // 2)


def test_readers_at_the_same_offset_get_identical_frames(client, text_stream, watch):
    readers = [watch(text_stream) for _ in range(20)]
    for reader in readers:
        reader.take(1)
    for number in range(5):
        client.post(text_stream, headers=TEXT, content=b"%d" % number)
        for reader in readers:
            reader.take(2)
    frames = {bytes(reader.raw).split(b"\n\n", 1)[1] for reader in readers}
    assert len(frames) == 1


# Limits


def test_a_reader_beyond_the_limit_gets_429(client, text_stream, watch, monkeypatch, start_thread, connect_to, path):
    server = start_thread()
    client = connect_to(server)
    client.put(path, headers=TEXT, content=b"x")
    monkeypatch.setattr(limits, "LIVE_READERS_MAX", 2)
    first = watch(path, server=server)
    first.take(2)
    second = watch(path, server=server)
    second.take(2)
    for query in ("offset=-1&live=sse", f"offset={offset(1)}&live=long-poll"):
        refused = client.get(f"{path}?{query}")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_readers")
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["retryable"] is True
        assert refused.json()["limit_readers"] == 2
    assert client.get(f"{path}?offset=-1&live=long-poll").content == b"x"  # this one returns at once
    client.post(path, headers=CLOSE)
    first.rest()
    second.rest()
    assert client.get(f"{path}?offset=-1&live=sse").status_code == 200  # a reader has left, so another one is accepted


def test_shutting_down_ends_every_live_read_cleanly(start_thread, connect_to, path, watch, pool):
    server = start_thread()
    client = connect_to(server)
    client.put(path, headers=TEXT)
    reader = watch(path, server=server)
    reader.take(1)
    poll = pool.submit(client.get, f"{path}?offset=-1&live=long-poll")
    while server.app.live.readers < 2:  # the poll counts as a reader as soon as it waits
        assert client.get("/readyz").status_code == 200
    server.app.release_readers()
    assert reader.rest() == []
    assert poll.result().status_code == 204
    assert client.get("/readyz").status_code == 503
