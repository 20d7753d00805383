"""Following: catching up, reading live over SSE or long-poll, and resuming after every disconnect."""

import json
import socket
import threading
from base64 import b64encode

import pytest

from mainstem.client import BadArgument, BadRequest, InvalidResponse, NotFound, OffsetGone, StreamGone
from tests.streams_client.canned import canned, reply

JSON = "application/json"
MODES = ["auto", "sse", "long-poll"]
CONTENTS = ["text/plain", JSON, "application/octet-stream"]


@pytest.fixture(params=MODES)
def live(request):
    return request.param


def test_existing_data_comes_first_and_then_new_data(streams, path, follower, live):
    streams.create(path, "text/plain", body="old ")
    follow = follower(streams.follow(path, live=live))
    follow.wait_for_data(b"old ")
    for number in range(5):
        streams.append(path, str(number))
    follow.wait_for_data(b"old 01234")
    streams.close(path, "end")
    batches = follow.wait_until_ended()
    assert b"".join(batch.data for batch in batches) == b"old 01234end"
    assert [batch.closed for batch in batches] == [False] * (len(batches) - 1) + [True]
    offsets = [batch.offset for batch in batches]
    assert offsets == sorted(offsets)


def test_json_messages_arrive_in_order(streams, path, follower, live):
    streams.create(path, JSON)
    follow = follower(streams.follow(path, live=live))
    follow.wait_up_to_date()
    for number in range(30):
        streams.append_json(path, {"n": number}, [number])
    follow.wait_for_messages([item for number in range(30) for item in ({"n": number}, [number])])
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize("content_type", ["application/octet-stream", "image/png", "application/x-protobuf"])
def test_binary_data_arrives_byte_for_byte(streams, path, follower, live, content_type):
    streams.create(path, content_type)
    follow = follower(streams.follow(path, live=live))
    follow.wait_up_to_date()
    data = [bytes(range(256)), b"\0", b"\xff\xfe", b"f", b"fo", b"foo", b"foobar", b"a\r\nb\rc\n", bytes(5_000)]
    for piece in data:
        streams.append(path, piece)
    follow.wait_for_data(b"".join(data))
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize(
    "text",
    [
        "a\u0085b",
        "a\u2028b",
        "a\u2029b",
        "a\u0085b\u2028c\u2029d",
        " one space",
        "  two spaces",
        "line\nline\n\nline",
        "data: x\n\n",
    ],
)
def test_text_arrives_with_its_spaces_and_separators(streams, path, follower, live, text):
    streams.create(path, "text/plain")
    follow = follower(streams.follow(path, live=live))
    follow.wait_up_to_date()
    streams.append(path, text)
    follow.wait_for_data(text.encode())
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize("content_type", CONTENTS)
def test_an_empty_stream_is_up_to_date_at_once(streams, path, follower, live, content_type):
    offset = streams.create(path, content_type).next_offset
    follow = follower(streams.follow(path, live=live))
    (batch,) = follow.wait_up_to_date()
    assert (batch.empty, batch.offset) == (True, offset)
    streams.append(path, b"1")
    follow.wait_until(lambda batches: len(batches) == 2 and not batches[1].empty)
    streams.close(path)
    follow.wait_until_ended()


def test_following_from_an_offset_skips_everything_before_it(streams, path, follower, live):
    streams.create(path, "text/plain")
    offset = streams.append(path, "before ").next_offset
    streams.append(path, "after ")
    follow = follower(streams.follow(path, offset, live=live))
    follow.wait_for_data(b"after ")
    streams.close(path, "live")
    follow.wait_until_ended()
    follow.wait_for_data(b"after live")


def test_following_from_now_skips_all_existing_data(streams, path, follower, live):
    streams.create(path, JSON, body=["old"])
    follow = follower(streams.follow(path, "now", live=live))
    (batch,) = follow.wait_up_to_date()
    assert (batch.empty, batch.offset) == (True, streams.head(path).next_offset)
    streams.append(path, "new")
    follow.wait_for_messages(["new"])
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize("content_type", CONTENTS)
@pytest.mark.parametrize("body", [None, b"0"])
def test_now_resolves_to_an_offset_that_can_be_kept(streams, path, follower, live, content_type, body):
    end = streams.create(path, content_type, body=body).next_offset
    follow = follower(streams.follow(path, "now", live=live))
    (batch,) = follow.wait_up_to_date()
    assert (batch.empty, batch.offset) == (True, end)
    streams.append(path, b"1")
    news = b"[1]" if content_type == JSON else b"1"
    follow.wait_until(lambda batches: batches[-1].data == news)
    assert streams.read_bytes(path, batch.offset) == news
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize("offset", ["not-an-offset", "ffffffffffffffff"])
def test_an_invalid_offset_is_refused(streams, path, live, offset):
    streams.create(path, "text/plain", body="x")
    with pytest.raises(BadRequest, match="offset") as caught:
        list(streams.follow(path, offset, live=live))
    assert (caught.value.status, caught.value.code) == (400, "invalid_offset")


def test_a_closed_stream_ends_at_once(streams, path, live):
    streams.create(path, "text/plain", body="all", closed=True)
    (batch,) = streams.follow(path, live=live)
    assert (batch.data, batch.closed, batch.up_to_date) == (b"all", True, True)
    (end,) = streams.follow(path, batch.offset, live=live)
    assert (end.data, end.closed) == (b"", True)


@pytest.mark.parametrize("offset", ["-1", "now"])
def test_following_a_missing_stream_is_an_error(streams, path, live, offset):
    with pytest.raises(NotFound, match=path):
        list(streams.follow(path, offset, live=live))


def test_following_a_stream_that_is_deleted_ends_with_an_error(streams, path, follower, live):
    streams.create(path, "text/plain")
    follow = follower(streams.follow(path, live=live))
    follow.wait_up_to_date()
    streams.delete(path)
    with pytest.raises(NotFound) as caught:
        follow.wait_until_ended()
    assert live == "long-poll" or isinstance(caught.value, StreamGone)


def test_an_unknown_live_mode_is_refused_at_once(streams, path):
    with pytest.raises(BadArgument, match="long-poll"):
        next(iter(streams.follow(path, live="websocket")))


def test_a_follower_may_stop_at_any_time(streams, path, live):
    streams.create(path, "text/plain", body="a")
    for _ in range(3):
        for batch in streams.follow(path, live=live):
            assert batch.data == b"a"
            break
    streams.append(path, "b")
    assert streams.read_text(path) == "ab"


def test_a_follower_that_is_many_batches_behind_catches_up(streams, path, follower, live):
    streams.create(path, JSON)
    for _ in range(10):
        streams.append_json(path, *("x" * 100 for _ in range(50)))
    follow = follower(streams.follow(path, live=live))
    follow.wait_for_messages(["x" * 100] * 500)
    streams.close(path)
    follow.wait_until_ended()


# Disconnects


@pytest.mark.parametrize("fault", [{"dropConnection": True}, {"dropReply": True}, {"status": 503}, {"status": 500}])
def test_a_follower_resumes_where_it_was(streams, path, faults, follower, live, fault):
    streams.create(path, JSON)
    streams.append(path, 0)
    faults.inject(path, method="GET", **fault, count=3)
    follow = follower(streams.follow(path, live=live))
    follow.wait_for_messages([0])
    for number in range(1, 6):
        faults.inject(path, method="GET", **fault)
        streams.append(path, number)
    follow.wait_for_messages(list(range(6)))
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize("cut", [0, 1, 20, 60, 100])
def test_an_interrupted_live_response_loses_and_repeats_nothing(streams, path, faults, follower, live, cut):
    streams.create(path, JSON)
    follow = follower(streams.follow(path, live=live))
    follow.wait_up_to_date()
    sent = []
    for number in range(4):
        faults.inject(path, method="GET", dropAfterBytes=cut)
        for part in range(3):
            sent.append([number, part, "x" * 30])
            streams.append(path, sent[-1])
    follow.wait_for_messages(sent)
    streams.close(path)
    follow.wait_until_ended()


@pytest.mark.parametrize("cut", [1, 40, 90, 200])
def test_binary_data_is_whole_after_every_interruption(streams, path, faults, follower, live, cut):
    streams.create(path, "application/octet-stream")
    follow = follower(streams.follow(path, live=live))
    follow.wait_up_to_date()
    sent = []
    for number in range(4):
        faults.inject(path, method="GET", dropAfterBytes=cut)
        for size in (1, 2, 3, 100):  # every padding of base64
            sent.append(bytes([number]) * size)
            streams.append(path, sent[-1])
    follow.wait_for_data(b"".join(sent))
    streams.close(path)
    follow.wait_until_ended()


def test_unknown_events_are_ignored(streams, path, faults, follower):
    streams.create(path, "text/plain", body="data")
    faults.inject(path, method="GET", count=2, injectSseEvent={"eventType": "later", "data": '{"some": "thing"}'})
    follow = follower(streams.follow(path, live="sse"))
    follow.wait_for_data(b"data")
    streams.close(path, "more")
    follow.wait_until_ended()
    follow.wait_for_data(b"datamore")


@pytest.mark.parametrize("data", ["{broken", ""])
def test_an_unreadable_control_event_is_an_error(streams, path, faults, follower, data):
    streams.create(path, "text/plain", body="data")
    faults.inject(path, method="GET", count=2, injectSseEvent={"eventType": "control", "data": data})
    follow = follower(streams.follow(path, live="sse"))
    with pytest.raises(InvalidResponse, match="control event"):
        follow.wait_until_ended()
    assert b"".join(batch.data for batch in follow.batches) == b"data", "from the catch-up, before any event"


# Where SSE does not work

OPEN = {"content-type": "text/plain", "stream-next-offset": "1", "stream-up-to-date": "true"}
LAST = reply(200, {**OPEN, "stream-next-offset": "2", "stream-closed": "true"}, b"end")


def test_a_server_without_sse_is_followed_by_long_poll(twins):
    with canned(reply(200, OPEN, b"a"), reply(200, OPEN, b""), LAST) as peer:
        assert [batch.data for batch in twins(peer.url).follow("s")] == [b"a", b"end"]
        assert [asked.target.partition("live=")[2] for asked in peer.asked] == ["", "sse", "long-poll"]


def test_a_caller_that_insists_on_sse_gets_an_error(twins):
    with canned(reply(200, OPEN, b"a"), reply(200, OPEN, b"")) as peer:
        with pytest.raises(InvalidResponse) as caught:
            list(twins(peer.url).follow("s", live="sse"))
        assert "long-poll" in caught.value.hint


def test_sse_responses_that_end_without_an_event_lead_to_long_poll(twins):
    ends = reply(200, {"content-type": "text/event-stream"})
    with canned(reply(200, OPEN, b"a"), ends, ends, ends, LAST) as peer:
        assert [batch.data for batch in twins(peer.url).follow("s")] == [b"a", b"end"]
        assert peer.asked[-1].target.endswith("live=long-poll")


def test_a_proxy_that_buffers_events_leads_to_long_poll(twins, monkeypatch):
    monkeypatch.setattr("mainstem.limits.CLIENT_SSE_SILENCE_S", 0.3)
    gone = threading.Event()

    def hold(_, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        gone.wait(10)

    with canned(reply(200, OPEN, b"a"), hold, LAST) as peer:
        assert [batch.data for batch in twins(peer.url).follow("s")] == [b"a", b"end"]
    gone.set()


def test_the_cursor_is_sent_back(twins):
    cursor = reply(200, {**OPEN, "stream-next-offset": "2", "stream-cursor": "42"}, b"b")
    with canned(reply(200, OPEN, b"a"), cursor, LAST) as peer:
        assert len(list(twins(peer.url).follow("s", live="long-poll"))) == 3
        assert [("cursor=42" in asked.target) for asked in peer.asked] == [False, False, True]
        assert "offset=2&" in peer.asked[2].target


def test_long_polls_that_return_nothing_are_repeated_silently(twins):
    nothing = reply(204, {"stream-next-offset": "1", "stream-up-to-date": "true", "stream-cursor": "7"})
    with canned(reply(200, OPEN, b"a"), nothing, nothing, nothing, LAST) as peer:
        batches = list(twins(peer.url).follow("s", live="long-poll"))
        assert [(batch.data, batch.content_type) for batch in batches] == [(b"a", "text/plain"), (b"end", "text/plain")]
        assert len(peer.asked) == 5
        assert all("offset=1&live=long-poll" in asked.target for asked in peer.asked[1:])


def test_a_silent_connection_is_closed_and_replaced(twins, monkeypatch):
    monkeypatch.setattr("mainstem.limits.CLIENT_SSE_SILENCE_S", 0.3)
    gone = threading.Event()

    def send_events(data: str, offset: str, closed: bool):
        def send(_, connection: socket.socket) -> None:
            control = json.dumps({"streamNextOffset": offset, "streamClosed": closed})
            event = f"event: data\ndata: {b64encode(data.encode()).decode()}\n\nevent: control\ndata: {control}\n\n"
            head = "content-type: text/event-stream\r\nstream-sse-data-encoding: base64\r\n"
            connection.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\n{event}".encode())
            if not closed:
                gone.wait(10)

        return send

    first, second = send_events("b", "2", False), send_events("c", "3", True)
    with canned(reply(200, OPEN, b"a"), first, second) as peer:
        batches = list(twins(peer.url).follow("s", live="sse"))
        assert [batch.data for batch in batches] == [b"a", b"b", b"c"]
        assert "offset=2&" in peer.asked[2].target
    gone.set()


def test_an_offset_that_retention_has_overtaken_names_the_earliest_one(twins, live):
    problem = json.dumps({"code": "offset_gone", "detail": "gone", "earliest_offset": "7"}).encode()
    gone = reply(410, {"content-type": "application/problem+json"}, problem)
    with canned(reply(200, OPEN, b"a"), gone) as peer:
        with pytest.raises(OffsetGone) as caught:
            list(twins(peer.url).follow("s", live=live))
        assert caught.value.earliest_offset == "7"
