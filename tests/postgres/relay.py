"""A proxy to PostgreSQL that can cut connections, before or after it has passed something on."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Relay:
    """Connect through `url`. When the client sends `cut_before` or `cut_after`, the relay cuts the connection, once."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.cut_before: bytes | None = None
        self.cut_after: bytes | None = None
        self.delay: bytes | None = None
        """When the client sends this, the relay cuts its connection, and passes the data on once `arrive` is set."""
        self.arrive = asyncio.Event()
        self.arrived = asyncio.Event()
        self.closed = False
        """Whether it refuses connections."""
        self.cuts = 0

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{self._parts.username}@127.0.0.1:{port}"))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()

    def cut_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closed:
            writer.transport.abort()
            return
        there_reader, there = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        self._writers |= {writer, there}
        answers = asyncio.create_task(self._answer(there_reader, writer))
        try:
            while data := await reader.read(65_536):
                if self.cut_before is not None and self.cut_before in data:
                    self.cut_before = None
                    self.cuts += 1
                    break
                if self.delay is not None and self.delay in data:
                    self.delay = None
                    self.cuts += 1
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                    writer.transport.abort()
                    await self.arrive.wait()
                    there.write(data)
                    await there_reader.read(65_536)
                    self.arrived.set()
                    break
                there.write(data)
                if self.cut_after is not None and self.cut_after in data:
                    self.cut_after = None
                    self.cuts += 1
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                    await there_reader.read(65_536)  # the database has done it, but the client does not learn of it
                    break
        except OSError:
            pass  # one side has disconnected, so the relay disconnects the other
        finally:
            answers.cancel()
            for end in (writer, there):
                end.transport.abort()
                self._writers.discard(end)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except OSError:
            pass
        writer.transport.abort()
