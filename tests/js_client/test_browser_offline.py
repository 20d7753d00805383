"""The JavaScript client in Chromium: offline, across reloads, and across kills of the browser and the server."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext

from mainstem.testing.server import ServerProcess
from tests.js_client.client_pages import LIST, start, submit, texts_of, wait_for_view
from tests.js_client.conftest import BLANK
from tests.support.browsers import FLAGS, WAIT_MS_MAX, find_chromium
from tests.support.network_links import NetworkLink


def test_two_browsers_edit_while_one_is_offline(server, open_page):
    ada, bob = open_page(), open_page()
    start(ada, server, "ada")
    with NetworkLink(server.address) as link:
        start(bob, link, "bob")
        submit(ada, "together")
        wait_for_view(bob, ["together"])
        link.cut()
        bob.wait_for_function("client.status.state === 'offline'")
        submit(bob, "from the train")
        submit(ada, "from the desk")
        assert bob.evaluate(LIST) == ["together", "from the train"]
        assert bob.evaluate("() => client.waiting") == 1
        link.restore()
        bob.evaluate("() => client.connectNow()")
        bob.evaluate("() => synced()")
        expected = ["together", "from the desk", "from the train"]
        for page in (ada, bob):
            wait_for_view(page, expected)
    assert texts_of(server) == expected


def test_a_reload_keeps_what_was_not_sent(server, open_page):
    server.kill()
    page = open_page()
    start(page, server, "ada", isServed=False)
    submit(page, "one", "two")
    page.reload()
    start(page, server, "ada", isServed=False)
    assert page.evaluate(LIST) == ["one", "two"]
    server.start()
    page.evaluate("() => client.connectNow()")
    page.evaluate("() => synced()")
    page.reload()
    start(page, server, "ada")
    page.evaluate("() => synced()")
    assert page.evaluate(LIST) == texts_of(server) == ["one", "two"]
    assert page.evaluate("() => client.waiting") == 0


@contextmanager
def run_chromium(browser: Browser, profile: Path) -> Iterator[tuple[BrowserContext, "subprocess.Popen[bytes]"]]:
    """Run a Chromium as a process of its own, which a test can kill, with a profile that stays."""
    program = find_chromium()
    assert program is not None
    command = [
        program,
        *FLAGS,
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        address = next(line for line in process.stderr if b"DevTools listening on" in line).split()[-1].decode()
        context = browser.browser_type.connect_over_cdp(address).contexts[0]
        context.set_default_timeout(WAIT_MS_MAX)
        yield context, process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_killed_browser_loses_nothing_and_sends_nothing_twice(server, browser, site, tmp_path):
    drafts = [f"draft {number}" for number in range(20)]
    with run_chromium(browser, tmp_path / "profile") as (context, process):
        page = context.new_page()
        page.goto(site + BLANK)
        start(page, server, "ada")
        page.evaluate("() => synced()")
        server.kill()
        submit(page, *drafts)
        process.kill()
        process.wait()
    server.start()
    with run_chromium(browser, tmp_path / "profile") as (context, process):
        page = context.new_page()
        page.goto(site + BLANK)
        start(page, server, "ada")
        page.evaluate("() => synced()")
        assert page.evaluate(LIST) == drafts
    assert texts_of(server) == drafts


def test_a_connection_that_hangs_is_noticed_when_the_network_changes(server, open_page):
    page = open_page()
    with NetworkLink(server.address) as link:
        start(page, link, "ada")
        page.evaluate("() => synced()")
        page.evaluate("() => dispatchEvent(new Event('offline'))")
        page.evaluate("() => client.submit(['p'], { text: 'one' }).then((draft) => draft.committed())")
        assert page.evaluate("() => client.status.state") == "live"  # the server has answered
        link.stall()
        submit(page, "two")
        page.evaluate("() => dispatchEvent(new Event('offline'))")
        page.wait_for_function("client.status.error?.code === 'server_silent'")
        link.cut()
        link.restore()
        page.evaluate("() => dispatchEvent(new Event('online'))")
        page.evaluate("() => synced()")
    assert texts_of(server) == ["one", "two"]


@pytest.mark.parametrize("years", [-20, 20])
def test_a_wrong_clock_changes_nothing(server, open_page, years):
    script = f"{{ const now = Date.now; Date.now = () => now() + {years} * 31_557_600_000; }}"
    wrong, right = open_page(scripts=(script,)), open_page()
    start(wrong, server, "ada")
    start(right, server, "bob")
    submit(wrong, "one")
    wait_for_view(right, ["one"])
    submit(right, "two")
    wait_for_view(wrong, ["one", "two"])


# Servers


UNTIL_WAITING = """(most) => new Promise((resolve) => {
    const look = () => client.waiting <= most && resolve(stop());
    const stop = client.onChange(look);
    look();
})"""


def test_a_thousand_drafts_survive_three_kills_of_the_server_exactly_once(server, open_page):
    page = open_page()
    start(page, server, "ada")
    page.evaluate("""async () => {
        const texts = Array.from({ length: 1000 }, (_, number) => `draft ${number}`);
        const drafts = await Promise.all(texts.map((text) => client.submit(["p"], { text })));
        window.outcomes = Promise.all(drafts.map((draft) => draft.committed()));
    }""")
    for waiting in (900, 600, 300):
        page.evaluate(UNTIL_WAITING, waiting)  # not by polling, which may miss all of it
        server.kill()
        server.start()
        page.evaluate("() => client.connectNow()")
    committed = page.evaluate("() => outcomes")
    assert sorted(committed) == committed
    assert len(set(committed)) == 1000
    events: list[Any] = []
    with httpx2.Client() as http:
        offset = "-1"
        while True:
            reply = http.get(f"{server.url}/v1/partition/p", params={"offset": offset})
            events += reply.json()
            offset = reply.headers["stream-next-offset"]
            if "stream-up-to-date" in reply.headers:
                break
    assert [event["event"]["text"] for event in events] == [f"draft {number}" for number in range(1000)]
    assert [event["committed_id"] for event in events] == committed


def test_ten_thousand_events_arrive_in_a_view(node, open_page):
    page = open_page()
    start(page, node, "writer", partitions=["many"], inMemory=True)
    page.evaluate("""async () => {
        for (let first = 0; first < 10_000; first += 1_000) {
            const numbers = Array.from({ length: 1_000 }, (_, index) => first + index);
            await Promise.all(numbers.map((number) => client.submit(["many"], { text: `event ${number}` })));
        }
        await synced();
    }""")
    other = open_page()
    start(other, node, "reader", partitions=["many"])
    other.evaluate("() => synced()")
    assert other.evaluate(LIST) == [f"event {number}" for number in range(10_000)]
    assert other.evaluate("() => client.cursor") == 10_000


def test_a_rejected_draft_leaves_the_view_and_stays_until_it_is_dismissed(tmp_path, open_page):
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["type", "text"]}
    (schemas / "note.json").write_text(json.dumps(schema))
    flags = ("--sync-validation", "model", "--sync-schemas", str(schemas))
    with ServerProcess(tmp_path / "data", *flags) as server:
        page = open_page()
        start(page, server, "ada")
        seen = page.evaluate("""async () => {
            const good = await client.submit(["p"], { type: "note", text: "milk" });
            const bad = await client.submit(["p"], { type: "note", text: 5 });
            const error = await bad.committed().catch((error) => error);
            await good.committed();
            const rejections = await client.rejections();
            return {
                code: error.code, field: error.details.errors[0].field, view: await client.view("list"),
                rejected: rejections.map(({ event }) => event.text), dismissed: await client.dismiss(bad.id),
                left: (await client.rejections()).length,
            };
        }""")
    assert seen == {
        "code": "draft_rejected",
        "field": "event.text",
        "view": ["milk"],
        "rejected": [5],
        "dismissed": 1,
        "left": 0,
    }
