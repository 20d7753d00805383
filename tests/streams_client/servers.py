"""A server with injected faults, and both clients behind one interface."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any

import httpx2
import pytest

from mainstem.client import AsyncIdempotentProducer, AsyncStreams, Batch, IdempotentProducer, Retries, Streams
from mainstem.testing.server import ServerProcess

WAIT_S_MAX = 20.0  # reached only by something that never happens
QUICK = Retries(attempts_max=6, delay_s=0.01, delay_s_max=0.05)

names = count()


class AsyncInThread:
    """AsyncStreams on an event loop in another thread, with the interface of Streams."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        try:
            self._streams = self._do(self._make(url, **options))
        except BaseException:
            self._stop()
            raise

    async def _make(self, url: str, **options: Any) -> AsyncStreams:
        return AsyncStreams(url, **options)

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._streams, name)
        if name in ("read", "follow", "list"):
            return lambda *args, **options: self._iterate(method(*args, **options))
        return lambda *args, **options: self._do(method(*args, **options))

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._do(anext(generator))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._do(generator.aclose())

    def producer(self, path: str, **options: Any) -> "AsyncProducerInThread":
        return AsyncProducerInThread(self._do, self._streams, path, options)

    def __enter__(self) -> "AsyncInThread":
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._streams.disconnect())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AsyncProducerInThread:
    def __init__(self, do: Callable[[Any], Any], streams: AsyncStreams, path: str, options: dict[str, Any]) -> None:
        async def make() -> AsyncIdempotentProducer:
            return AsyncIdempotentProducer(streams, path, **options)

        self._do = do
        self._producer = do(make())

    def append_all(self, messages: list[Any]) -> None:
        async def append() -> None:
            for message in messages:
                await self._producer.append(message)

        self._do(append())

    def __getattr__(self, name: str) -> Any:
        if name in ("append", "flush", "close", "close_stream"):
            return lambda *args: self._do(getattr(self._producer, name)(*args))
        return getattr(self._producer, name)

    def __enter__(self) -> "AsyncProducerInThread":
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._producer.close())


class BlockingStreams(Streams):
    def producer(self, path: str, **options: Any) -> "BlockingProducer":
        return BlockingProducer(self, path, **options)


class BlockingProducer(IdempotentProducer):
    def append_all(self, messages: list[Any]) -> None:
        for message in messages:
            self.append(message)


TWINS = {"blocking": BlockingStreams, "async": AsyncInThread}
Connect = Callable[..., Any]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("client") / "data"
    with ServerProcess(data, "--test-endpoints", "--long-poll-ms", "500", "--page-bytes", "4096") as server:
        yield server


@pytest.fixture
def path() -> str:
    return f"tests/{next(names)}"


@pytest.fixture(params=TWINS)
def twins(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A function that creates clients; each test runs once with blocking and once with asynchronous clients."""
    made: list[Any] = []

    def connect(url: str, **options: Any) -> Any:
        made.append(TWINS[request.param](url, **{"retries": QUICK, **options}))
        return made[-1]

    yield connect
    for streams in made:
        streams.__exit__(None, None, None)


@pytest.fixture
def streams(twins: Connect, server: ServerProcess) -> Any:
    return twins(server.url)


class Faults:
    def __init__(self, url: str) -> None:
        self._url = f"{url}/_test/inject-error"

    def inject(self, path: str, **fault: Any) -> None:
        response = httpx2.post(self._url, json={"path": path, **fault}, trust_env=False)
        assert response.status_code == 204, response.text

    def clear(self) -> None:
        httpx2.delete(self._url, trust_env=False).raise_for_status()


@pytest.fixture
def faults(server: ServerProcess) -> Iterator[Faults]:
    faults = Faults(server.url)
    yield faults
    faults.clear()


class Follower:
    """Follows a stream in a thread, and collects the batches."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches: list[Batch] = []
        self.ended: Future[None] = Future()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, args=(batches,), daemon=True).start()

    def _run(self, batches: Iterator[Batch]) -> None:
        try:
            for batch in batches:
                with self._changed:
                    self.batches.append(batch)
                    self._changed.notify_all()
            self.ended.set_result(None)
        except Exception as error:  # noqa: BLE001 - the test inspects it
            self.ended.set_exception(error)
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, wanted: Callable[..., Any]) -> list[Batch]:
        """Wait until the batches so far fulfil the condition, and return them."""
        with self._changed:
            came = self._changed.wait_for(lambda: wanted(self.batches) or self.ended.done(), WAIT_S_MAX)
        if self.ended.done():
            self.ended.result()
        assert came, self.batches
        assert wanted(self.batches), self.batches
        return list(self.batches)

    def wait_for_data(self, data: bytes) -> list[Batch]:
        return self.wait_until(lambda batches: b"".join(batch.data for batch in batches) == data)

    def wait_for_messages(self, messages: list[Any]) -> list[Batch]:
        return self.wait_until(lambda batches: [message for batch in batches for message in batch.messages] == messages)

    def wait_up_to_date(self) -> list[Batch]:
        return self.wait_until(lambda batches: batches and batches[-1].up_to_date)

    def wait_until_ended(self) -> list[Batch]:
        self.ended.result(WAIT_S_MAX)
        return list(self.batches)


@pytest.fixture
def follower() -> type[Follower]:
    return Follower
