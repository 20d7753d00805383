"""Groups of waiting readers: what they are sent, when a reader leaves its group, and when its response ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainstem import limits
from mainstem.access import EVERYBODY
from mainstem.errors import ShareExceeded, StreamNotFound
from mainstem.http.asgi import HeaderList
from mainstem.http.responses import Response
from mainstem.log.live import Live
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.shares import Share, Shares
from mainstem.streams.reading.pump import Progress
from mainstem.streams.reading.sources import Tail
from mainstem.streams.reading.waiting import LiveReader, WaitingReaders
from mainstem.streams.rules.offsets import Offset
from tests.support.waits import eventually_async

TOPIC = TopicId(1)
SCOPE = {"mainstem.identity": EVERYBODY, "client": ("127.0.0.1", 1)}
LONG_S = 3_600.0


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Source:
    content_type = "text/plain"
    key = TOPIC

    def __init__(self, in_memory: bool = True) -> None:
        self.in_memory = in_memory
        self.readers = 0
        self.items: list[bytes] = []

    def copy(self) -> "Source":
        return self

    def add_reader(self) -> None:
        self.readers += 1

    def remove_reader(self) -> None:
        self.readers -= 1

    @property
    def tail(self) -> Tail:
        return Offset(0, len(self.items)), self.items[-1:] == [b"end"]

    async def refresh(self) -> Tail:
        if not self.in_memory:
            await asyncio.sleep(0)
        if self.items[-1:] == [b"gone"]:
            raise StreamNotFound("there is no such stream")
        return self.tail

    async def read(self, at: Any, bytes_max: int) -> Any:
        raise NotImplementedError


class Feed:
    """Returns one item of its source at a time; the position is the number of items before it."""

    def __init__(self, source: Source, position: int) -> None:
        self.source = source
        self.position = position
        self.encoded = 0

    def copy(self, position: int) -> "Feed":
        return Feed(self.source, position)

    async def next_events(self) -> tuple[bytes, Progress]:
        if not self.source.in_memory:
            await asyncio.sleep(0)
        if self.position == len(self.source.items):
            return b"", "caught up"
        self.encoded += 1
        item = self.source.items[self.position]
        if item == b"error":
            raise ValueError("a bug")
        self.position += 1
        if item == b"end":
            return b"", "ended"
        return item, "caught up" if self.position == len(self.source.items) else "behind"


class Connection:
    def __init__(self) -> None:
        self.write_paused = False
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data


class Reply:
    def __init__(self) -> None:
        self.connection = Connection()
        self.ended = self.aborted = False
        self.response: tuple[int, bytes, bytes] | None = None
        self.code = ""
        self.sent = 0
        self.request_id = "request-1"

    def respond(self, status: int, headers: HeaderList, body: bytes, lines: bytes) -> None:
        self.response = status, lines, body

    def end(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.aborted = True

    def resume(self, app: Callable[..., Awaitable[None]]) -> None:
        raise NotImplementedError


class House:
    """A source with waiting readers."""

    def __init__(self, in_memory: bool = True) -> None:
        self.live = Live(Shares({Share.LIVE_READERS: 100}))
        self.source = Source(in_memory)
        self.resumed: list[tuple[LiveReader, int]] = []
        self.waiting = WaitingReaders(self.live, self.resume)
        self.feeds: list[Feed] = []
        self.responses = 0

    def resume(self, reader: LiveReader, feed: Any) -> None:
        self.resumed.append((reader, feed.position))

    def add(self, left_s: float = LONG_S, position: int | None = None) -> tuple[LiveReader, Reply]:
        reader, reply = LiveReader(self.live, self.source, SCOPE, "sse"), Reply()
        reader.deadline = asyncio.get_running_loop().time() + left_s
        feed = Feed(self.source, len(self.source.items) if position is None else position)
        self.feeds.append(feed)
        self.waiting.add(reader, feed, reply)
        return reader, reply

    def poll(self, left_s: float = LONG_S, like: str = "") -> tuple[LiveReader, Reply]:
        reader, reply = LiveReader(self.live, self.source, SCOPE, "sse"), Reply()
        reader.deadline = asyncio.get_running_loop().time() + left_s

        async def make_response(source: Any, tail: Tail) -> Response:
            self.responses += 1
            if self.source.items[-1:] == [b"error"]:
                raise ValueError("a bug")
            end, closed = tail
            return 200, [(b"like", like.encode()), (b"closed", b"%d" % closed)], b"%d" % end.position

        self.waiting.add_poll(reader, Offset(0, len(self.source.items)), like, make_response, reply)
        return reader, reply

    def publish(self, *items: bytes) -> None:
        self.source.items += items
        self.live.publish([Record(CommittedId(1), 0, Kind.APPEND, TOPIC, 0, 1, 1, b"x")])

    def counts(self) -> tuple[int, int]:
        return self.live.readers, self.source.readers


@pytest.mark.parametrize("in_memory", [True, False])
async def test_events_are_encoded_once_and_sent_to_all_readers_as_chunks(in_memory: bool) -> None:
    house = House(in_memory)
    replies = [house.add()[1] for _ in range(5)]
    house.publish(b"first")
    await turn()
    house.publish(b"second", b"third")
    await turn()
    assert {reply.connection.sent for reply in replies} == {b"5\r\nfirst\r\n6\r\nsecond\r\n5\r\nthird\r\n"}
    assert sum(feed.encoded for feed in house.feeds) == 3
    assert len(house.waiting.groups) == 1


async def test_waiting_readers_have_no_tasks() -> None:
    house = House()
    before = asyncio.all_tasks()
    for _ in range(5):
        house.add()
    house.publish(b"first")
    await turn()
    assert asyncio.all_tasks() == before


async def test_readers_of_a_large_group_get_their_turns_and_miss_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAN_OUT_AT_ONCE", 2)
    house = House()
    readers = [house.add() for _ in range(7)]
    house.publish(b"a")
    await asyncio.sleep(0)
    house.publish(b"b")  # while the first is being sent
    late = house.add()  # at the new end
    readers[6][0].client_disconnected()
    await turn()
    await turn()
    assert {reply.connection.sent for _, reply in readers[:6]} == {b"1\r\na\r\n1\r\nb\r\n"}
    assert b"b" not in readers[6][1].connection.sent
    house.publish(b"c")
    await turn()
    await turn()
    assert late[1].connection.sent == b"1\r\nc\r\n"
    assert readers[0][1].connection.sent.endswith(b"1\r\nc\r\n")
    assert len(house.waiting.groups) == 1  # the late reader has joined the others


async def test_readers_at_another_position_form_another_group_until_they_meet() -> None:
    house = House()
    house.publish(b"a", b"b")
    ahead, behind = house.add()[1], house.add(position=1)[1]
    assert len(house.waiting.groups) == 2
    house.publish(b"c")
    await turn()
    assert ahead.connection.sent == b"1\r\nc\r\n"
    assert behind.connection.sent == b"1\r\nb\r\n1\r\nc\r\n"
    assert len(house.waiting.groups) == 1
    house.publish(b"d")
    await turn()
    assert ahead.connection.sent[-4:] == behind.connection.sent[-4:] == b"\nd\r\n"


async def test_a_reader_that_does_not_keep_up_continues_in_a_task_from_its_position() -> None:
    house = House()
    slow, slow_reply = house.add()
    _, quick_reply = house.add()
    house.publish(b"a")
    await turn()
    slow_reply.connection.write_paused = True
    house.publish(b"b", b"c")
    await turn()
    assert house.resumed == [(slow, 1)]
    assert not slow.waits
    assert slow_reply.connection.sent == b"1\r\na\r\n"
    assert quick_reply.connection.sent == b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n"
    assert house.counts() == (2, 2)  # it is still a reader


async def test_the_end_of_the_source_ends_all_responses() -> None:
    house = House()
    replies = [house.add()[1] for _ in range(3)]
    house.publish(b"last", b"end")
    await turn()
    assert all(reply.ended and reply.connection.sent == b"4\r\nlast\r\n" for reply in replies)
    assert house.counts() == (0, 0)
    assert not house.waiting.groups


async def test_shutting_down_ends_all_responses() -> None:
    house = House()
    replies = [house.add()[1] for _ in range(3)]
    house.live.release()
    await turn()
    assert all(reply.ended for reply in replies)
    assert house.counts() == (0, 0)


async def test_an_unexpected_error_aborts_the_responses_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    replies = [house.add()[1] for _ in range(3)]
    house.publish(b"error")
    await turn()
    assert all(reply.aborted and not reply.ended for reply in replies)
    assert house.counts() == (0, 0)
    assert "an unexpected error" in caplog.text


async def test_a_response_ends_at_its_deadline_whether_it_is_near_or_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEADLINE_CHECK_S", 0.01)
    house = House()
    (_, near), (_, far), (_, later) = house.add(0.001), house.add(0.05), house.add()
    await eventually_async(lambda: near.ended)
    await eventually_async(lambda: far.ended)
    assert not later.ended
    assert house.counts() == (1, 1)


async def test_a_quiet_group_sends_comments_but_not_to_clients_that_do_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SSE_HEARTBEAT_S", 0.001)
    house = House()
    (_, reply), (stalled, stalled_reply) = house.add(), house.add()
    stalled_reply.connection.write_paused = True
    await eventually_async(lambda: reply.connection.sent.count(b": keep-alive") > 2)
    assert stalled_reply.connection.sent == b""
    assert stalled.waits


async def test_a_client_that_leaves_is_not_counted_any_more() -> None:
    house = House()
    reader, reply = house.add()
    other, _ = house.add()
    reader.client_disconnected()
    reader.client_disconnected()  # the connection may report it twice
    reader.expire()
    assert reply.aborted
    assert not reply.ended
    assert house.counts() == (1, 1)
    other.client_disconnected()
    assert not house.waiting.groups
    assert house.live.watched_topics() == []


async def test_a_reader_beyond_the_share_of_its_caller_is_not_counted() -> None:
    house = House()
    for _ in range(100):
        house.add()
    with pytest.raises(ShareExceeded):
        house.add()
    assert house.counts() == (100, 100)


# Long-polls


@pytest.mark.parametrize("in_memory", [True, False])
async def test_equal_polls_get_the_same_response_which_is_made_once(in_memory: bool) -> None:
    house = House(in_memory)
    replies = [house.poll()[1] for _ in range(5)]
    other = house.poll(like="other")[1]
    house.publish(b"a", b"b")
    await turn()
    assert {reply.response for reply in replies} == {(200, b"like: \r\nclosed: 0\r\n", b"2")}
    assert other.response == (200, b"like: other\r\nclosed: 0\r\n", b"2")
    assert house.responses == 2
    assert house.counts() == (0, 0)
    assert not house.waiting.groups


async def test_polls_and_events_of_one_stream_do_not_mix() -> None:
    house = House()
    poll, events = house.poll()[1], house.add()[1]
    house.publish(b"a")
    await turn()
    assert poll.response is not None
    assert poll.connection.sent == b""
    assert events.connection.sent == b"1\r\na\r\n"
    assert house.counts() == (1, 1)


async def test_many_polls_get_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAN_OUT_AT_ONCE", 2)
    house = House()
    polls = [house.poll() for _ in range(7)]
    house.publish(b"a")
    await asyncio.sleep(0)
    polls[6][0].client_disconnected()
    await turn()
    assert [reply.response is not None for _, reply in polls] == [True] * 6 + [False]
    assert house.counts() == (0, 0)


async def test_a_wake_up_without_news_leaves_polls_waiting() -> None:
    house = House()
    reply = house.poll()[1]
    house.publish()
    await turn()
    assert reply.response is None
    house.publish(b"a")
    await turn()
    assert reply.response is not None


async def test_a_poll_gets_a_response_at_its_deadline_and_the_others_go_on_waiting() -> None:
    house = House()
    (_, first), (_, second) = house.poll(0.001), house.poll()
    await eventually_async(lambda: first.response)
    assert first.response == (200, b"like: \r\nclosed: 0\r\n", b"0")
    assert second.response is None
    assert house.counts() == (1, 1)


async def test_closing_deleting_and_shutting_down_end_polls() -> None:
    for item, status, body in ((b"end", 200, b"1"), (b"gone", 404, b"")):
        house = House()
        reply = house.poll()[1]
        house.publish(item)
        await turn()
        assert reply.response is not None
        assert reply.response[0] == status
        assert reply.response[2].startswith(body)
    house = House()
    reply = house.poll()[1]
    house.live.release()
    await turn()
    assert reply.response == (200, b"like: \r\nclosed: 0\r\n", b"0")


async def test_an_unexpected_error_aborts_polls() -> None:
    house = House()
    reply = house.poll()[1]
    house.publish(b"error")
    await turn()
    assert reply.aborted
    assert reply.response is None
    assert house.counts() == (0, 0)
