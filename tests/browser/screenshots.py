"""`python -m tests.browser.screenshots`: take the pictures of the console that the documentation shows.

It starts a server with some data, opens the console in Chromium, and writes `docs/assets/console-*.png`.
"""

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
from playwright.sync_api import Browser, Page, expect

from mainstem.testing.server import ServerProcess
from tests.support.browsers import PHONE, ConsolePage, start_browser
from tests.support.waits import eventually

ASSETS: Final = Path(__file__).parents[2] / "docs" / "assets"
JSON: Final = {"content-type": "application/json"}
SAMPLES: Final = 12
"""How many points the charts of the overview have; one is taken every two seconds."""


def fill(client: httpx2.Client) -> None:
    """Create streams of all kinds, and a log that is worth looking at."""
    for number in range(1, 25):
        orders = [
            {
                "order": f"2026-{number:03}-{item}",
                "total": item * 12.5,
                "state": "paid",
                "items": [{"sku": "A-17", "count": item}],
            }
            for item in range(1, number % 7 + 3)
        ]
        client.put(f"/v1/stream/orders/eu/{number:03}", content=json.dumps(orders), headers=JSON)
    client.put("/v1/stream/sessions/4f1c", json=[{"user": "ann"}], headers={"stream-ttl": "3600"})
    client.put("/v1/stream/sessions/98ab", json=[{"user": "bob"}], headers={"stream-ttl": "3600"})
    client.put("/v1/stream/orders/eu/001-draft", headers={"stream-forked-from": "/v1/stream/orders/eu/001"})
    client.put("/v1/stream/tokens/answer", content="Once upon a time", headers={"content-type": "text/plain"})
    client.put("/v1/stream/images/logo", content=bytes(range(256)) * 8, headers={"content-type": "image/png"})
    client.post("/v1/stream/tokens/answer", headers={"stream-closed": "true"})


@contextmanager
def appending(url: str) -> Iterator[None]:
    """Append to a stream in the background."""
    stopping = threading.Event()

    def append() -> None:
        with httpx2.Client(base_url=url, trust_env=False, verify=False) as client:
            number = 0
            while not stopping.wait(0.005 if number // 300 % 2 else 0.02):
                number += 1
                client.post("/v1/stream/orders/eu/001", json={"order": number, "total": number * 2.5, "state": "new"})

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def take(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.screenshot(path=ASSETS / f"console-{name}.png")


def show_overview(page: Page) -> None:
    path = page.locator(".chart .s2").first
    eventually(lambda: (path.get_attribute("d") or "").count("L") >= SAMPLES)


def show_stream(page: Page) -> None:
    expect(page.locator("td.col-content").nth(5)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    page.locator("td.col-content").nth(5).click()
    expect(page.get_by_label("Content", exact=True)).to_be_visible()


def show_log(page: Page) -> None:
    expect(page.locator("td.col-content").nth(5)).to_be_visible()
    page.get_by_role("button", name="Pause").click()


def show_streams(page: Page) -> None:
    expect(page.locator("td.col-path a").nth(5)).to_be_visible()


PICTURES: Final = (
    ("overview", "", show_overview, "light"),
    ("overview-dark", "", show_overview, "dark"),
    ("streams", "streams?tree=1", show_streams, "light"),
    ("stream-dark", "stream/orders%2Feu%2F001", show_stream, "dark"),
    ("log", "log", show_log, "light"),
)


def photograph(browser: Browser, url: str) -> None:
    for name, address, prepare, scheme in PICTURES:
        console = ConsolePage(browser, url, color_scheme=scheme)
        page = console.open(address)
        prepare(page)
        take(page, name)
        console.close()
    console = ConsolePage(browser, url, viewport=PHONE)
    page = console.open("streams")
    show_streams(page)
    take(page, "phone")
    console.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "data") as server:
        with httpx2.Client(base_url=server.url, trust_env=False, verify=False) as client:
            fill(client)
        with start_browser() as browser, appending(server.url):
            photograph(browser, server.url)
    print(f"wrote {', '.join(sorted(path.name for path in ASSETS.glob('console-*.png')))}")


if __name__ == "__main__":
    main()
