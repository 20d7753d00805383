"""Servers in a thread of this process, on real sockets: limits and the clock can be set from a test."""

import threading
from collections.abc import Callable, Iterator
from itertools import count

import httpx2
import pytest
import uvicorn

from mainstem.server.app import Mainstem, wall_clock_us
from mainstem.server.run import BoundedHttpProtocol, Server, bind
from mainstem.server.settings import Settings

names = count()


class ServerThread:
    def __init__(self, settings: Settings, clock_us: Callable[[], int] = wall_clock_us) -> None:
        self.app = Mainstem(settings, clock_us=clock_us)
        self._listener = bind(settings)
        self._ready = threading.Event()
        ready = self._ready

        class AnnouncedServer(Server):
            async def startup(self, sockets=None):
                await super().startup(sockets)
                ready.set()

        config = uvicorn.Config(
            self.app,
            loop="uvloop",
            http=BoundedHttpProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        self._server = AnnouncedServer(config, self.app)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self.address: tuple[str, int] = self._listener.getsockname()
        self.url = "http://{}:{}".format(*self.address)

    def __enter__(self) -> "ServerThread":
        self._thread.start()
        self._ready.wait()
        assert self._server.started
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


StartThread = Callable[..., ServerThread]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """The server of all tests that need no setting of their own."""
    data = tmp_path_factory.mktemp("server") / "data"
    with ServerThread(Settings(port=0, data=str(data))) as server:
        yield server


@pytest.fixture
def start_thread(tmp_path) -> Iterator[StartThread]:
    """Starts servers with settings of the test's own."""
    started: list[ServerThread] = []

    def start(*, clock_us: Callable[[], int] = wall_clock_us, **settings: object) -> ServerThread:
        settings = {"port": 0, "data": str(tmp_path / f"data{len(started)}"), **settings}
        server = ServerThread(Settings(**settings), clock_us)
        server.__enter__()
        started.append(server)
        return server

    yield start
    for server in reversed(started):
        server.__exit__()


@pytest.fixture
def client(server: ServerThread) -> Iterator[httpx2.Client]:
    with connect_client(server) as client:
        yield client


@pytest.fixture
def connect_to() -> Iterator[Callable[[ServerThread], httpx2.Client]]:
    """A client of a server that the test has started itself."""
    clients: list[httpx2.Client] = []

    def connect(server: ServerThread) -> httpx2.Client:
        clients.append(connect_client(server))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def connect_client(server: ServerThread) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=30, trust_env=False)


@pytest.fixture
def path() -> str:
    """The URL path of a stream that no other test uses."""
    return f"/v1/stream/test/{next(names)}"


@pytest.fixture
def text_stream(client: httpx2.Client, path: str) -> str:
    assert client.put(path, headers={"content-type": "text/plain"}).status_code == 201
    return path


@pytest.fixture
def json_stream(client: httpx2.Client, path: str) -> str:
    assert client.put(path, headers={"content-type": "application/json"}).status_code == 201
    return path
