import asyncio
import os
import threading

import pytest

from mainstem import limits
from mainstem.server.log_api.pipes import PipeReader, open_pipe

LARGE = os.urandom(limits.LOG_PIPE_BYTES) * 3 + b"end"


def write_all(pipe: int, data: bytes) -> None:
    with os.fdopen(pipe, "wb") as file:
        file.write(data)


def test_replies_larger_than_the_pipe_arrive_whole_and_in_order():
    async def read() -> list[bytes]:
        reads, writes = open_pipe()
        replies = PipeReader(reads)
        writer = threading.Thread(target=write_all, args=(writes, LARGE + b"small"))
        writer.start()
        try:
            return [bytes(await replies.read(size)) for size in (len(LARGE), 0, 2, 3)]
        finally:
            writer.join()
            replies.close()

    assert asyncio.run(read()) == [LARGE, b"", b"sm", b"all"]


def test_the_end_of_the_pipe_within_a_reply_is_an_error():
    async def read() -> bytearray:
        reads, writes = open_pipe()
        replies = PipeReader(reads)
        write_all(writes, b"half")
        try:
            return await replies.read(8)
        finally:
            replies.close()

    with pytest.raises(EOFError):
        asyncio.run(read())


def test_a_cancelled_read_leaves_no_reader_on_the_event_loop():
    async def read() -> bool:
        reads, writes = open_pipe()
        replies = PipeReader(reads)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(replies.read(1), 0.01)
        removed = asyncio.get_running_loop().remove_reader(reads)
        replies.close()
        os.close(writes)
        return removed

    assert asyncio.run(read()) is False
