import asyncio
from types import SimpleNamespace
from typing import Any

from mainstem.errors import StoreUnreachable
from mainstem.log.live import Live
from mainstem.streams.reading.pump import Progress, send_events


class FailingFeed:
    """One event, and then no store."""

    def __init__(self) -> None:
        self._asked = 0

    async def next_events(self) -> tuple[bytes, Progress]:
        self._asked += 1
        if self._asked > 1:
            raise StoreUnreachable("the database cannot be reached")
        return b"data:1\n\n", "behind"


async def receive() -> Any:
    return await asyncio.get_running_loop().create_future()  # the client stays connected


async def test_an_event_stream_ends_if_the_store_fails():
    """An error reply is impossible: the reader has received the head of the response, and reconnects."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    log: Any = SimpleNamespace(live=Live())
    await send_events(log, [], FailingFeed(), asyncio.get_running_loop().time() + 60, receive, send, "sse")
    assert [message["body"] for message in sent] == [b"data:1\n\n", b""]
    assert [message.get("more_body", False) for message in sent] == [True, False]
