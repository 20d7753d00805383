"""The JavaScript client in a real Chromium and in Node.js."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from mainstem.testing.server import ServerProcess
from tests.support.browsers import WAIT_MS_MAX, start_browser
from tests.support.static_sites import serve_folder

ROOT = Path(__file__).parents[2]
BLANK = "/tests/js_client/pages/blank.html"
BROWSER_FIXTURES = {"browser", "open_page"}

OpenPage = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)
            if BROWSER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.xdist_group("browser"))  # one browser at a time


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The URL of a site with the files of this repository: an origin of its own."""
    with serve_folder(ROOT) as url:
        yield url


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server of a module, without tokens."""
    with ServerProcess(tmp_path_factory.mktemp("js-client") / "data") as server:
        yield server


@pytest.fixture
def open_page(browser: Browser, site: str) -> Iterator[OpenPage]:
    """Open a tab with an empty page, in a new context unless one is passed. No page may have reported an error."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def open_(context: BrowserContext | None = None, *, scripts: tuple[str, ...] = (), **options: Any) -> Page:
        if context is None:
            context = browser.new_context(**options)
            context.set_default_timeout(WAIT_MS_MAX)
            for script in scripts:
                context.add_init_script(script)
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(site + BLANK)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of its own, which keeps its port when it is started again."""
    with ServerProcess(tmp_path / "data") as server:
        server.flags = ("--port", str(server.address[1]))
        yield server
