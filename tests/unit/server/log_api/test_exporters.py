"""Errors of the process that makes the pages keep their code on the way to the server."""

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import pytest

from mainstem.errors import ArrowMissing, BadQuery, MainstemError, RecordTooLarge, StoreFailed, Unavailable
from mainstem.server.log_api.exporters import PageRefused, Worker
from mainstem.server.log_api.pipes import PipeReader, open_pipe
from mainstem.server.log_api.selection import Selection
from mainstem.server.log_api.worker import LENGTH, PageRequest, answer, encode_message

REQUEST = PageRequest(Selection(after=0), 1, "ndjson")


class Pages:
    """Fails in the given way."""

    places = None

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def find(self, selection, head):
        raise self.error


class Pipe:
    """The worker's standard input; its content is ignored."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...


async def ask(error: Exception) -> MainstemError:
    """Return what the server raises when the worker fails in this way."""
    pages: Any = Pages(error)
    reply, body = await answer(pages, REQUEST)
    about = encode_message(reply)
    reads, writes = open_pipe()
    os.write(writes, LENGTH.pack(len(about)) + about + body)
    os.close(writes)
    process: Any = SimpleNamespace(stdin=Pipe(), returncode=0)
    worker = Worker(process, PipeReader(reads))
    with pytest.raises(PageRefused) as refused:
        await worker.page(REQUEST)
    worker.end()
    return refused.value.error


@pytest.mark.parametrize(
    "error", [RecordTooLarge("large"), ArrowMissing("no Arrow"), BadQuery("no such column"), StoreFailed("the disk")]
)
def test_an_error_keeps_its_code_and_detail(error):
    found = asyncio.run(ask(error))
    assert (type(found), found.code, found.detail) == (type(error), error.code, error.detail)


def test_any_other_error_is_reported_as_unavailable():
    found = asyncio.run(ask(ZeroDivisionError()))
    assert (type(found), found.detail) == (Unavailable, "the page could not be encoded; see the log of the server")
