"""A worker process that reads and encodes pages of the embedded store, so that the server stays free for writers.

Requests arrive on stdin and pages leave on stdout, each preceded by its length. The process ends when stdin does, so it
never outlives the server, not even one that is killed.
"""

import asyncio
import logging
import os
import struct
import sys
from contextlib import closing
from typing import BinaryIO

import msgspec

from mainstem.background_priority import enter_background
from mainstem.errors import MainstemError, Unavailable
from mainstem.log.store.sqlite import ReadOnlySqliteStore
from mainstem.server.log_api.formats import Body
from mainstem.server.log_api.pages import LogPages, encode
from mainstem.server.log_api.selection import Selection

LENGTH = struct.Struct(">Q")
NICENESS = 12  # commits come first, as before the Spark of the same machine

logger = logging.getLogger(__name__)


class PageRequest(msgspec.Struct, frozen=True):
    selection: Selection
    head: int
    format: str


class PageReply(msgspec.Struct, frozen=True):
    """Precedes the body. `error` is the code of an error, or empty."""

    next: int = 0
    rows: int = 0
    position: int = 0
    body_bytes: int = 0
    error: str = ""
    detail: str = ""


encode_message = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(PageRequest).decode
decode_reply = msgspec.msgpack.Decoder(PageReply).decode


async def answer(pages: LogPages, request: PageRequest) -> tuple[PageReply, Body]:
    try:
        found = await pages.find(request.selection, request.head)
        page = encode(found, request.selection, pages.resume_points, request.format)
        return PageReply(page.next, page.rows, page.position, len(page.body)), page.body
    except MainstemError as error:
        return PageReply(error=error.code, detail=error.detail), b""
    except Exception:
        logger.exception("a page of the log could not be encoded")
        return PageReply(error=Unavailable.code, detail="the page could not be encoded; see the log of the server"), b""


def serve(directory: str, server: int, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer the requests of the server with this process id, until it is gone.

    After that, a read could be the first use of the database since a crash. It would take SQLite's locks to recover the
    write-ahead log, at a low priority, while the next server waits for them.
    """
    pages = LogPages(ReadOnlySqliteStore(directory))
    # Not a Runner, which sets signal handlers again for each page, at a surprising cost.
    with closing(asyncio.new_event_loop()) as loop:
        while head := requests.read(LENGTH.size):
            request = decode_request(requests.read(*LENGTH.unpack(head)))
            if os.getppid() != server:
                return
            reply, body = loop.run_until_complete(answer(pages, request))
            about = encode_message(reply)
            replies.write(LENGTH.pack(len(about)))
            replies.write(about)
            replies.write(body)
            replies.flush()


def main() -> None:
    os.nice(NICENESS)  # on every system; on Linux there is more to do
    enter_background(NICENESS)
    try:
        serve(sys.argv[1], int(sys.argv[2]), sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os._exit(0)  # the server is gone
