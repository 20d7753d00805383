"""The console in a real Chromium. All of these tests are slow tests: a browser takes a second to start."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser

from mainstem.testing.server import ServerProcess
from tests.support.browsers import ConsolePage, start_browser
from tests.support.issuers import Issuer, write_secret

OpenConsole = Callable[..., ConsolePage]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("browser"))  # one browser at a time


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of a module. Meanwhile Playwright runs an event loop in this thread, so no other test can run one."""
    with start_browser() as browser:
        yield browser


@pytest.fixture
def open_console(browser: Browser) -> Iterator[OpenConsole]:
    """Open tabs with the console of a server. At the end, no browser may have reported an error."""
    opened: list[ConsolePage] = []

    def start(url: str, **options: Any) -> ConsolePage:
        opened.append(ConsolePage(browser, url, **options))
        return opened[-1]

    yield start
    for page in opened:
        page.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server of a module, without tokens."""
    with ServerProcess(tmp_path_factory.mktemp("console") / "data") as server:
        yield server


@pytest.fixture
def console(node: ServerProcess, open_console: OpenConsole) -> ConsolePage:
    return open_console(node.url)


@pytest.fixture
def api(node: ServerProcess, connect_to: Callable[..., httpx2.Client]) -> httpx2.Client:
    return connect_to(node)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Issuer]]:
    """The server of a module, with tokens, and who issues them."""
    folder = tmp_path_factory.mktemp("guarded")
    issuer = write_secret(folder / "secret")
    with ServerProcess(folder / "data", "--jwt-secret-file", str(folder / "secret")) as server:
        yield server, issuer
