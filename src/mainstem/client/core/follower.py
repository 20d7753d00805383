"""Following a stream: catch up page by page, then read live, and resume at the last offset after every disconnect."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any, Literal

from mainstem import limits
from mainstem.client.core import protocol
from mainstem.client.core.effects import Effect, NoResponse, Receive, Wait
from mainstem.client.core.errors import BadArgument, InvalidResponse, StreamGone
from mainstem.client.core.operations import Operations, ReadOperation
from mainstem.client.core.results import Batch
from mainstem.client.core.sse import BatchParser

Live = Literal["auto", "sse", "long-poll"]
Step = Generator[Effect | Batch, Any, bool]
"""One step of following. It returns whether the stream has ended."""

LIVE_READ_S_MIN = 0.05  # after a live read that ends sooner and brings nothing, pause: this must not become a busy loop


class Follower:
    """Follows one stream from an offset until the stream is closed.

    Until its first reply, a follower gives up like any other call. After that it retries for as long as it takes.
    """

    def __init__(self, operations: Operations, path: str, offset: str, live: Live) -> None:
        if live not in ("auto", "sse", "long-poll"):
            raise BadArgument(f"live is {live!r}; it must be 'auto', 'sse' or 'long-poll'")
        self._operations = operations
        self._path = path
        self._offset = offset
        self._live = live
        self._content_type = ""
        self._cursor: str | None = None
        self._reported: str | None = None
        """The offset at which the follower last reported that it is up to date."""
        self._unlimited = replace(operations.sender.retries, attempts_max=None)
        self._failures = 0
        self._silent_streams = 0
        """How many SSE responses in a row ended without an event."""

    def run(self) -> ReadOperation:
        ended = yield from self._catch_up()
        while not ended:
            ended = yield from (self._long_poll() if self._live == "long-poll" else self._read_events())

    def _catch_up(self) -> Step:
        """Read what the stream holds with plain reads.

        They are faster than live reads, they name the content type, and they turn `now` into an offset from which the
        follower can resume.
        """
        retries = None
        while True:
            request = self._operations.requests.read(self._path, self._offset, "follow")
            response = yield from self._operations.send(request, retries=retries)
            retries = self._unlimited
            batch = self._operations.read_page(self._path, response)
            self._content_type = batch.content_type
            if not batch.up_to_date and batch.offset == self._offset:
                raise InvalidResponse(
                    f"follow {self._path}: the server announces more data but sends none after {batch.offset}"
                )
            yield from self._emit(batch)
            if batch.closed or batch.up_to_date:
                return batch.closed

    def _long_poll(self) -> Step:
        request = self._operations.requests.read_live(self._path, self._offset, "long-poll", self._cursor)
        began_s = self._operations.sender.clock_s()
        response = yield from self._operations.send(request, retries=self._unlimited)
        batch = protocol.read_batch(response, self._content_type)
        news = batch.offset != self._offset
        yield from self._emit(batch)
        if not (news or batch.closed):
            yield from self._pause_if_quick(began_s)
        return batch.closed

    def _read_events(self) -> Step:
        """Read one SSE response until it ends or breaks off."""
        request = self._operations.requests.read_live(self._path, self._offset, "sse", self._cursor)
        began_s = self._operations.sender.clock_s()
        response = yield from self._operations.send(request, opens=True, retries=self._unlimited)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            self._fall_back("the server does not support SSE")
            return False
        encoding = response.headers.get("stream-sse-data-encoding", "")
        parser = BatchParser(self._content_type, base64=encoding.lower() == "base64")
        began_at, received, broken = self._offset, False, False
        try:
            while piece := (yield Receive()):
                for batch in parser.feed(piece):
                    received = True
                    self._silent_streams = 0
                    yield from self._emit(batch)
                    if batch.closed:
                        return True
                if parser.deleted:
                    raise StreamGone(f"follow {self._path}: the stream was deleted", status=410)
        except NoResponse as error:
            broken = True
            if error.timed_out and not received:  # a server sends an event at once; a proxy that buffers sends none
                self._silent_streams = limits.CLIENT_SSE_FAILURES
        if not received:
            self._silent_streams += 1
            if self._silent_streams >= limits.CLIENT_SSE_FAILURES:
                self._fall_back("SSE responses end before their first event")
        if broken or not received:
            self._failures += 1
            yield Wait(self._unlimited.delay(self._failures, self._operations.sender.chance))
        elif self._offset == began_at:
            yield from self._pause_if_quick(began_s)
        return False

    def _fall_back(self, reason: str) -> None:
        """Fall back to long-poll, which works through every proxy that passes plain responses."""
        if self._live == "auto":
            self._live = "long-poll"
        elif self._silent_streams == 0:
            raise InvalidResponse(f"follow {self._path}: {reason}", hint='Use live="auto" or live="long-poll".')

    def _emit(self, batch: Batch) -> ReadOperation:
        """Continue from this batch, and yield it if it says anything new."""
        if batch.offset != self._offset:
            self._failures = 0
        self._offset = batch.offset
        self._cursor = batch.cursor or self._cursor
        known = batch.empty and not batch.closed and (not batch.up_to_date or self._reported == batch.offset)
        if batch.up_to_date:
            self._reported = batch.offset
        if not known:
            yield batch

    def _pause_if_quick(self, began_s: float) -> Generator[Effect, Any, None]:
        if self._operations.sender.clock_s() - began_s < LIVE_READ_S_MIN:
            yield Wait(self._unlimited.delay(1, self._operations.sender.chance))
