"""The official client of Durable Streams, npm `@durable-streams/client`, unchanged in a browser.

The page comes from another origin than the streams, so it also tests what the server allows other origins.
"""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from mainstem.testing.server import ServerProcess
from tests.support.browsers import WAIT_MS_MAX
from tests.support.issuers import bearer, write_secret
from tests.support.node_packages import bundle
from tests.support.static_sites import serve_folder

HERE = Path(__file__).parent
PACKAGES = HERE.parent / "official_clients"
HTML = '<!doctype html><html lang="en"><title>Streams</title><ol></ol></html>'
FOLLOW = """
async ([url, live]) => {
  const { follow } = await import("./streams.js");
  const show = (message) => {
    const item = document.createElement("li");
    item.textContent = JSON.stringify(message);
    document.querySelector("ol").append(item);
  };
  window.ended = follow(url, live, show).then(() => document.body.append("closed"));
}
"""


@pytest.fixture(scope="module")
def site_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a page with the client."""
    folder = tmp_path_factory.mktemp("streams-page")
    bundle(HERE / "streams_page.js", PACKAGES, folder / "streams.js")
    (folder / "index.html").write_text(HTML)
    with serve_folder(folder) as url:
        yield url


@pytest.fixture
def page(browser: Browser, site_url: str) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS_MAX)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(site_url)
    yield page
    context.close()
    assert errors == []


def call(page: Page, name: str, *arguments: object) -> object:
    return page.evaluate('async ([name, ...rest]) => (await import("./streams.js"))[name](...rest)', [name, *arguments])


def test_a_page_creates_a_stream_appends_to_it_and_catches_up(page, node):
    read = call(page, "catchUp", f"{node.url}/v1/stream/page/a b")
    assert read == {"before": [{"n": 1}, {"n": 2}], "after": [{"n": 3}]}


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_page_follows_a_stream_until_it_is_closed(page, node, live):
    url = f"{node.url}/v1/stream/page/{live}"
    httpx2.put(url, json=["before"], trust_env=False)
    page.evaluate(FOLLOW, [url, live])
    expect(page.locator("li")).to_have_text(['"before"'])
    httpx2.post(url, json=["from elsewhere"], trust_env=False)
    expect(page.locator("li")).to_have_count(2)
    call(page, "append", url, "<b>from the page</b>")
    expect(page.locator("li")).to_have_text(['"before"', '"from elsewhere"', '"<b>from the page</b>"'])
    call(page, "close", url)
    expect(page.locator("body")).to_contain_text("closed")


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_page_that_was_offline_continues_where_it_stopped(page, node, live):
    url = f"{node.url}/v1/stream/page/offline-{live}"
    httpx2.put(url, json=[1], trust_env=False)
    page.evaluate(FOLLOW, [url, live])
    expect(page.locator("li")).to_have_text(["1"])
    page.context.set_offline(True)
    httpx2.post(url, json=[2], trust_env=False)
    page.context.set_offline(False)
    expect(page.locator("li")).to_have_text(["1", "2"])
    httpx2.post(url, json=[3], headers={"stream-closed": "true"}, trust_env=False)
    expect(page.locator("li")).to_have_text(["1", "2", "3"])


def test_a_page_sends_a_token(page, site_url, tmp_path):
    """`EventSource` cannot do that."""
    issuer = write_secret(tmp_path / "secret")
    flags = ("--jwt-secret-file", str(tmp_path / "secret"), "--allow-origin", site_url)
    with ServerProcess(tmp_path / "data", *flags) as server:
        url = f"{server.url}/v1/stream/page/secret"
        assert call(page, "refusal", url) == 401
        headers = bearer(issuer.token(streams=["page/**"]))
        assert call(page, "catchUp", url, headers) == {"before": [{"n": 1}, {"n": 2}], "after": [{"n": 3}]}
