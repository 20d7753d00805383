"""The queues of outgoing messages: what is written when, and how many queues are flushed at once."""

import asyncio

import pytest

from mainstem import limits
from mainstem.http.asgi import Message
from mainstem.sync.protocol.effects import Send
from mainstem.sync.send_queue import Flusher, SendQueue


class Writer:
    def __init__(self) -> None:
        self.writable = asyncio.Event()
        self.writable.set()
        self.writes: list[bytes] = []

    def write_frames(self, data: bytes) -> None:
        self.writes.append(data)


class BrokenWriter(Writer):
    def write_frames(self, data: bytes) -> None:
        raise ValueError("a bug")


async def never_send(message: Message) -> None:
    raise NotImplementedError


async def test_the_messages_of_one_turn_are_written_together() -> None:
    writer = Writer()
    queue = SendQueue(never_send, writer, Flusher())
    for payload in (b"a", b"b"):
        assert not queue.put(Send(payload))
    assert writer.writes == []
    await queue.drained()
    assert writer.writes == [b"\x81\x01a\x81\x01b"]
    queue.put(Send(b"c"))
    await queue.drained()
    assert writer.writes[1:] == [b"\x81\x01c"]


async def test_queues_beyond_the_limit_are_flushed_in_later_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAN_OUT_AT_ONCE", 2)
    flusher = Flusher()
    writers = [Writer() for _ in range(5)]
    for writer in writers:
        SendQueue(never_send, writer, flusher).put(Send(b"a"))
    for flushed in (2, 4, 5):
        await asyncio.sleep(0)
        assert sum(len(writer.writes) for writer in writers) == flushed


async def test_an_error_in_one_queue_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    flusher = Flusher()
    writer = Writer()
    SendQueue(never_send, BrokenWriter(), flusher).put(Send(b"a"))
    SendQueue(never_send, writer, flusher).put(Send(b"a"))
    await asyncio.sleep(0)
    assert writer.writes == [b"\x81\x01a"]
    assert "an unexpected error" in caplog.text


async def test_a_client_that_does_not_read_gets_its_messages_later() -> None:
    writer = Writer()
    writer.writable.clear()
    queue = SendQueue(never_send, writer, Flusher())
    running = asyncio.create_task(queue.run())
    assert queue.put(Send(b"x" * (limits.SEND_QUEUE_BYTES_MAX + 1)))
    await asyncio.sleep(0)
    assert queue.is_full
    assert writer.writes == []
    writer.writable.set()
    await queue.drained()
    assert not queue.is_full
    assert len(writer.writes) == 1
    running.cancel()


async def test_without_a_frame_writer_messages_are_sent_as_text() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    queue = SendQueue(send, None, Flusher())
    running = asyncio.create_task(queue.run())
    queue.put(Send(b"a"))
    queue.put(Send(b"b"))
    await queue.drained()
    assert [message["text"] for message in sent] == ["a", "b"]
    running.cancel()
