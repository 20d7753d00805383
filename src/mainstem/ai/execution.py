"""The execution of one run: its source is read in one task, and written to the stream in another."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

from mainstem import limits
from mainstem.ai.formats import last_message
from mainstem.ai.pieces import BufferedBytes, InvalidPiece, PieceBuffer, encode_piece
from mainstem.ai.registry import Outcome, RunRecord
from mainstem.ai.turns import Turns
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import BadArgument, ClientError, StaleEpoch, StreamClosed, StreamGone, may_repeat
from mainstem.client.core.protocol import Producer
from mainstem.streams.rules.json_mode import JSON

logger = logging.getLogger(__name__)

TAKEN_OVER = (StaleEpoch, StreamClosed, StreamGone)
"""What the writer of a run gets if another process has declared the run lost, or somebody has ended its stream."""
Source = AsyncIterator[Any] | Callable[[], AsyncIterator[Any]]
DescribeError = Callable[[Exception], str]


class Execution:
    """Reads a source to its end, and appends its pieces to the stream of a run, each of them once."""

    def __init__(
        self,
        streams: AsyncStreams,
        run: RunRecord,
        source: Source,
        describe: DescribeError,
        buffered: BufferedBytes,
        turns: Turns,
    ) -> None:
        self._streams = streams
        self._run = run
        self._source = source
        self._describe = describe
        self._buffer = PieceBuffer(buffered)
        self._turns = turns
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._ended: tuple[Outcome, str] | None = None
        self._seq = 0
        self._reader: asyncio.Task[None] | None = None
        self._waiting: asyncio.Future[bool] | None = None
        """The pause or the wait for a turn of the writer; the end of the run ends it."""
        self.active_s = asyncio.get_running_loop().time()
        """When the source last yielded, by the clock of the event loop."""

    async def run(self) -> tuple[Outcome, str]:
        """Run to the end, and return the outcome and its reason. The stream has them by then.

        Call `release_source` afterwards: the source may need time to clean up.
        """
        if self._ended is None:  # otherwise it was stopped before it began
            self._reader = asyncio.create_task(self._read(), name=f"mainstem-run-source {self._run.id}")
        try:
            return await self._write()
        except TAKEN_OVER:
            return "lost", "another process or program has ended the stream of this run"
        except ClientError as error:
            logger.error("the run %s could not be stored: %s", self._run.id, error)
            return "lost", "the run could not be stored"
        finally:
            self.end("lost", "")  # if nothing else has ended it
            self._buffer.clear()

    def end(self, outcome: Outcome, reason: str) -> None:
        """End the run early: nothing more is read from its source."""
        if self._ended is None:
            self._ended = (outcome, reason[: limits.RUN_REASON_CHARS_MAX])
            if self._reader is not None and self._reader is not asyncio.current_task():
                self._reader.cancel()
            self._arrived.set()
            if self._waiting is not None:
                release(self._waiting)

    # Reading the source

    async def _read(self) -> None:
        buffer, loop = self._buffer, asyncio.get_running_loop()
        try:
            if callable(self._source):
                self._source = self._source()
                check_source(self._source, "what the source of a run returns", callables=False)
            pieces = 0
            async for piece in self._source:
                if self._ended is not None:  # the source goes on although it was cancelled
                    return
                self.active_s = loop.time()
                buffer.add(encode_piece(piece))
                self._arrived.set()
                pieces += 1
                if pieces % limits.RUN_PIECES_IN_A_ROW_MAX == 0:
                    await asyncio.sleep(0)
                while buffer.full:
                    self._room.clear()
                    await self._room.wait()
            self.end("finished", "")
        except asyncio.CancelledError:
            self.end("failed", "the source of the run was cancelled")
            raise
        except InvalidPiece as error:
            logger.error("the source of the run %s yielded an invalid piece: %s", self._run.id, error.detail)
            self.end("failed", error.detail)
        except Exception as error:
            logger.exception("the source of the run %s failed", self._run.id)
            self.end("failed", self._explain(error))
        finally:
            self.end("failed", "")  # it raised something that is not an `Exception`

    def _explain(self, error: Exception) -> str:
        try:
            return str(self._describe(error)).encode(errors="replace").decode()
        except Exception:
            logger.exception("`describe_error` failed for the run %s", self._run.id)
            return ""

    async def release_source(self) -> None:
        """Wait until the source has cleaned up, but not for ever. Another cancellation would interrupt the clean-up."""
        if self._reader is not None:
            await asyncio.wait([self._reader], timeout=limits.RUN_STOP_S)
            if not self._reader.done():
                logger.warning("the source of the run %s does not end although it was cancelled", self._run.id)
                return
            self._reader = None  # its error refers to the source, which would wait for the garbage collector
        await discard(self._source)

    # Writing the stream

    async def _write(self) -> tuple[Outcome, str]:
        loop = asyncio.get_running_loop()
        next_s = 0.0
        while True:
            if not self._buffer and self._ended is None:
                self._arrived.clear()
                await self._arrived.wait()
            delay_s = next_s - loop.time()
            if delay_s > 0 and self._ended is None:
                await self._linger(delay_s)
            next_s = loop.time() + limits.RUN_LINGER_S
            if self._ended is not None:
                return await self._finish(*self._ended)
            if await self._take_turn():
                try:
                    await self._append(self._buffer.take())
                finally:
                    self._turns.give_back()
                self._room.set()

    async def _linger(self, delay_s: float) -> None:
        """Wait for more pieces, or for the end. One timer is cheaper than a timeout around an event."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(delay_s, release, self._waiting)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    async def _take_turn(self) -> bool:
        """Wait until this run may append. Return False if it has ended before: its last append does not wait."""
        if self._turns.take():
            return True
        self._waiting = asyncio.get_running_loop().create_future()
        self._turns.wait(self._waiting)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    async def _finish(self, outcome: Outcome, reason: str) -> tuple[Outcome, str]:
        run = self._run
        message = last_message(run.format, outcome, reason)
        if message is not None:
            self._buffer.add(encode_piece(message))
        while self._buffer:
            body = self._buffer.take()
            await self._append(body, close=run.closes and not self._buffer)
            if not self._buffer:
                return outcome, reason
        if run.closes:
            await self._append(b"", close=True)
        return outcome, reason

    async def _append(self, body: bytes, *, close: bool = False) -> None:
        producer = (self._run.token, 0, self._seq)
        self._seq += 1
        await append(self._streams, self._run.stream, body, producer, close=close)


async def append(streams: AsyncStreams, path: str, body: bytes, producer: Producer, *, close: bool) -> None:
    """Append a JSON array, or close a stream if there is none, and retry while the server is away."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + limits.RUN_WRITE_S
    while True:
        try:
            if body:
                await streams.append(path, body, content_type=JSON, producer=producer, close=close)
            else:
                await streams.close(path, producer=producer)
            return
        except ClientError as error:
            if not may_repeat(error) or loop.time() > deadline_s:
                raise
            logger.warning("a run could not be stored yet: %s", error)
            await asyncio.sleep(limits.RUN_RETRY_S)


def check_source(source: Any, what: str = "the source of a run", *, callables: bool = True) -> None:
    """Raise `BadArgument` unless a source can be read."""
    if not isinstance(source, AsyncIterable) and not (callables and callable(source)):
        if inspect.iscoroutine(source):
            source.close()  # otherwise Python warns that it was never awaited
        wanted = "an async iterator, or a callable that returns one" if callables else "an async iterator"
        raise BadArgument(f"{what} must be {wanted}, and is of type {type(source).__name__}")


def release(waiting: "asyncio.Future[bool]") -> None:
    if not waiting.done():
        waiting.set_result(False)


async def discard(source: Source) -> None:
    """Close a source that is not read, or not any further. A callable was not called."""
    if not callable(source):
        await close_source(source)


async def close_source(source: Any) -> None:
    """Close a source that is not read any further, so that it can release what it holds."""
    close = getattr(source, "aclose", None)
    if close is None:
        return
    try:
        result = close()
        if inspect.isawaitable(result):
            async with asyncio.timeout(limits.RUN_STOP_S):
                await result
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the run has ended; its source may not change that
        logger.warning("closing the source of a run failed: %r", error)
