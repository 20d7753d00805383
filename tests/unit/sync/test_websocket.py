"""A connection with many messages yields to the event loop, and large messages are handled in a thread."""

import asyncio
import json
import threading
from typing import Any

import pytest

from mainstem import limits
from mainstem.access import EVERYBODY
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.long_work import run_sized
from mainstem.sync.hub import Hub
from mainstem.sync.websocket import SyncSocket


async def verify_token(token):
    return EVERYBODY


def text(type_, payload):
    return json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0"})


@pytest.mark.parametrize("pad", [0, 5_000], ids=["tiny", "middling"])
async def test_messages_that_have_already_arrived_do_not_block_the_loop(pad):
    log = CommitLog(MemoryStore(), Live(), lambda: 0)
    socket = SyncSocket(Hub(log), verify_token, validate=None, implicit_subscriptions=False)
    number = 2_000
    heartbeat = {"type": "websocket.receive", "text": text("heartbeat", {"pad": "x" * pad})}
    waiting = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": text("connect", {"client_id": "c"})},
        *[heartbeat] * number,
        {"type": "websocket.disconnect"},
    ]
    taken = turns = most = 0

    async def receive():
        nonlocal taken
        taken += 1
        return waiting[taken - 1]  # without waiting

    async def send(message):
        pass

    serving = asyncio.create_task(socket({"type": "websocket"}, receive, send, core=False))
    while not serving.done():
        before = taken
        await asyncio.sleep(0)
        turns, most = turns + 1, max(most, taken - before)
    await serving
    assert taken == number + 3
    assert most <= limits.SYNC_MESSAGES_AT_ONCE
    if pad:
        assert most <= limits.SYNC_INLINE_BYTES_MAX // pad + 2, "the size of messages counts too"


async def test_large_work_runs_outside_the_loops_thread_and_small_work_does_not():
    def where():
        return threading.current_thread()

    assert await run_sized(10, 10, where) is threading.current_thread()
    assert await run_sized(11, 10, where) is not threading.current_thread()


async def test_large_work_takes_turns():
    order: list[Any] = []
    await asyncio.gather(*(run_sized(1, 0, order.append, number) for number in range(20)))
    assert order == list(range(20))
