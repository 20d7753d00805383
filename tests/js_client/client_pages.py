"""Pages with a client, as the browser tests use them; `pages/blank.html` is their other half."""

from typing import Any

import httpx2
from playwright.sync_api import Page

from mainstem.testing.server import ServerProcess
from tests.support.network_links import NetworkLink

LIST = "() => client.view('list')"


def start(page: Page, server: ServerProcess | NetworkLink, client_id: str, **options: Any) -> None:
    page.wait_for_function("window.isReady")
    page.evaluate("([url, options]) => start(url, options)", [server.url, {"clientId": client_id, **options}])


def submit(page: Page, *texts: str) -> None:
    """Submit events, and wait until they are durable in the browser."""
    page.evaluate("(texts) => Promise.all(texts.map((text) => client.submit(['p'], { text })))", list(texts))


def texts_of(server: ServerProcess) -> list[str]:
    """Return what the server has, in order."""
    events: list[Any] = httpx2.get(f"{server.url}/v1/partition/p").json()
    return [event["event"]["text"] for event in events]


def wait_for_view(page: Page, texts: list[str]) -> None:
    page.evaluate(
        """(texts) => new Promise((resolve, reject) => {
            let last;
            const timer = setTimeout(() => reject(new Error(`the view is ${JSON.stringify(last)}`)), 25_000);
            const stop = client.watch("list", (state) => {
                last = state;
                if (JSON.stringify(state) !== JSON.stringify(texts)) return;
                clearTimeout(timer);
                stop();
                resolve();
            });
        })""",
        texts,
    )
