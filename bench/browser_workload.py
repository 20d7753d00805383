"""`python -m bench.browser_workload PORT EVENTS TIMES`: measure the JavaScript client, and print the figures."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from playwright.sync_api import sync_playwright

from bench.load_jobs import Figures, encode_figures
from bench.wire import HOST

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]

# Every time with a new store. The reader sees a page of a thousand events as one message.
WORK = """async ([url, events, times]) => {
    const { OfflineClient, indexedDbStore, memoryStore } = await import(`${url}/client/mainstem.js`);
    const append = (state, { event }) => { state.push(event.number); return state; };
    const open = (clientId, store) => {
        const client = new OfflineClient(url, { clientId, partitions: ["browser"], store });
        client.registerView("numbers", append, []);
        return client.open();
    };
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const writer = await open("writer", memoryStore());
    const numbers = Array.from({ length: events }, (_, number) => number);
    for (let first = 0; first < events; first += 1_000) {
        const some = numbers.slice(first, first + 1_000);
        await Promise.all(some.map((number) => writer.submit(["browser"], { number, text: `item number ${number}` })));
    }
    await writer.synced();
    await writer.close();
    const found = { view_ms: [], open_ms: [], rows_ms: [] };
    for (let time = 0; time < times; time += 1) {
        for (const figure of ["view_ms", "open_ms"]) {
            const started = performance.now();
            const reader = await open("reader", indexedDbStore(`reader ${time}`));
            if (figure === "view_ms") await reader.synced();
            const view = await reader.view("numbers");
            found[figure].push(performance.now() - started);
            if (view.length !== events) throw new Error(`the view has ${view.length} events`);
            await reader.close();
        }
        found.rows_ms.push(await addRows(`rows ${time}`));
    }
    return Object.fromEntries(Object.entries(found).map(([name, values]) => [name, median(values)]));

    async function addRows(name) {
        const request = indexedDB.open(name, 1);
        request.onupgradeneeded = () => {
            request.result.createObjectStore("rows", { keyPath: "number" }).createIndex("id", "id", { unique: true });
        };
        const db = await new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
        const started = performance.now();
        for (let first = 0; first < events; first += 1_000) {
            const transaction = db.transaction("rows", "readwrite", { durability: "relaxed" });
            for (const number of numbers.slice(first, first + 1_000)) {
                const event = { number, text: `item number ${number}` };
                const row = { number, id: crypto.randomUUID(), partitions: ["browser"], event };
                transaction.objectStore("rows").add(row);
            }
            await new Promise((resolve) => (transaction.oncomplete = resolve));
        }
        return performance.now() - started;
    }
}"""


class BlankPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,>")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_blank_page() -> Iterator[str]:
    """Serve an empty page, because Chromium lets only pages of this machine connect to it."""
    site = ThreadingHTTPServer((HOST, 0), BlankPage)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield f"http://{HOST}:{site.server_port}"
    finally:
        site.shutdown()


def measure(port: int, events: int, times: int) -> Figures:
    program = shutil.which("chromium") or shutil.which("google-chrome")  # or Playwright's own, if it has one
    url = f"http://{HOST}:{port}"
    with serve_blank_page() as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page()
        page.goto(site)
        found: Figures = page.evaluate(WORK, [url, events, times])
        browser.close()
    return found


if __name__ == "__main__":
    print(encode_figures(measure(*map(int, sys.argv[1:]))))
