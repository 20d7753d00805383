"""The live list: nothing twice, nothing missing, and a page that stays responsive."""

import json
import threading
import time
from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.support.waits import eventually

JSON = {"content-type": "application/json"}
KEPT = 5000
BATCH = 250


def numbers_of(page: Page) -> str:
    return page.locator(".tail-numbers").first.text_content() or ""


def received(page: Page) -> int:
    text = numbers_of(page).partition(" received")[0]
    return int(text.replace("\u202f", "") or 0)


def visible_numbers(page: Page) -> list[int]:
    return [int(text) for text in page.locator("td.col-content").all_text_contents()]


@pytest.fixture
def writer(api: httpx2.Client) -> Callable[[str, int, int], None]:
    """Append numbers to a stream, in batches."""

    def write(path: str, start: int, count: int) -> None:
        for first in range(start, start + count, BATCH):
            body = json.dumps(list(range(first, min(first + BATCH, start + count))))
            api.post(f"/v1/stream/{path}", content=body, headers=JSON)

    return write


def test_new_messages_appear_and_the_list_follows_them(console, api):
    api.put("/v1/stream/follow", json=[1, 2])
    page = console.open("stream/follow")
    expect(page.locator(".tail-state")).to_have_text("Live")
    api.post("/v1/stream/follow", json=[3])
    expect(page.locator("td.col-content")).to_have_text(["1", "2", "3"])
    assert numbers_of(page).startswith("3 received")


def test_a_paused_list_continues_where_it_stopped(console, api):
    api.put("/v1/stream/pause", json=[1])
    page = console.open("stream/pause")
    expect(page.locator(".tail-state")).to_have_text("Live")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".tail-state")).to_have_text("Paused")
    api.post("/v1/stream/pause", json=[2, 3])
    expect(page.locator("td.col-content")).to_have_text(["1"])
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("td.col-content")).to_have_text(["1", "2", "3"])


def test_ten_thousand_messages_a_second_neither_freeze_nor_fill_the_page(console, api, writer):
    count = 50_000
    api.put("/v1/stream/fast", headers=JSON)
    page = console.open("stream/fast")
    expect(page.locator(".tail-state")).to_have_text("Live")
    page.evaluate(
        """() => {
          window.longest = 0;
          let last = performance.now();
          const tick = () => {
            const now = performance.now();
            window.longest = Math.max(window.longest, now - last);
            last = now;
            window.ticking = requestAnimationFrame(tick);
          };
          requestAnimationFrame(tick);
        }"""
    )
    began = time.monotonic()
    writing = threading.Thread(target=writer, args=("fast", 0, count))
    writing.start()
    eventually(lambda: received(page) == count, within_s=120)
    writing.join()
    rate = count / (time.monotonic() - began)
    print(f"{rate:.0f} messages/s; the longest time between two frames was {page.evaluate('window.longest'):.0f} ms")
    assert page.evaluate("document.getElementsByTagName('*').length") < 1500
    assert page.evaluate("window.longest") < 2000  # a frozen page would miss all frames until the writer is done
    assert f"{count - KEPT:,}".replace(",", "\u202f") + " older ones dropped" in numbers_of(page)
    seen = visible_numbers(page)
    assert seen[-1] == count - 1
    assert seen == list(range(seen[0], count))


def test_the_reader_who_scrolls_up_stays_where_he_reads(console, api, writer):
    api.put("/v1/stream/scroll", headers=JSON)
    writer("scroll", 0, 300)
    page = console.open("stream/scroll?offset=-1")
    eventually(lambda: received(page) == 300)
    page.locator(".tail-rows").hover()
    page.mouse.wheel(0, -4000)
    expect(page.get_by_role("button", name="To the end")).to_be_visible()
    first = visible_numbers(page)[0]
    writer("scroll", 300, 200)
    eventually(lambda: received(page) == 500)
    assert visible_numbers(page)[0] == first
    page.get_by_role("button", name="To the end").click()
    eventually(lambda: visible_numbers(page)[-1] == 499)


def test_jumps_to_the_beginning_an_offset_and_the_end(console, api, writer):
    api.put("/v1/stream/jump", headers=JSON)
    writer("jump", 0, 300)
    page = console.open("stream/jump")
    eventually(lambda: received(page) == 100)
    page.get_by_label("Show", exact=True).select_option("beginning")
    eventually(lambda: received(page) == 300)
    offset = api.get("/v1/stream/jump?tail=1").headers["stream-next-offset"]
    page.get_by_label("Show", exact=True).select_option("offset")
    page.get_by_label("Offset", exact=True).fill(offset)
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("No messages yet")).to_be_visible()
    api.post("/v1/stream/jump", json=[12345])
    expect(page.locator("td.col-content")).to_have_text(["12345"])


def test_jump_to_a_time(console, api):
    api.put("/v1/stream/clock", json=["old"])
    created = int(time.time())
    eventually(lambda: int(time.time()) > created)  # the input has whole seconds
    moment = int(time.time())
    api.post("/v1/stream/clock", json=["new"])
    page = console.open("stream/clock")
    page.get_by_label("Show", exact=True).select_option("time")
    page.get_by_label("Time", exact=True).fill(time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment)))
    page.get_by_role("button", name="Go").click()
    expect(page.locator("td.col-content")).to_have_text(['"new"'])


def test_a_closed_stream_ends_the_list(console, api):
    api.put("/v1/stream/closing", json=[1])
    page = console.open("stream/closing")
    expect(page.locator(".tail-state")).to_have_text("Live")
    api.post("/v1/stream/closing", headers={"stream-closed": "true"})
    expect(page.locator(".tail-state")).to_have_text("Closed: nothing follows")
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()


def test_a_deleted_stream_says_so(console, api):
    api.put("/v1/stream/deleting", json=[1])
    page = console.open("stream/deleting")
    expect(page.locator(".tail-state")).to_have_text("Live")
    api.delete("/v1/stream/deleting")
    expect(page.locator(".tail-state")).to_have_text("The stream was deleted")


def test_search_shows_its_progress_and_every_match(console, api, writer):
    api.put("/v1/stream/search", headers=JSON)
    writer("search", 0, 20_000)
    api.post("/v1/stream/search", content='{"name": "caf\\u00e9"}', headers=JSON)
    page = console.open("stream/search")
    page.get_by_label("Search in this stream").fill("777")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".tail-state")).to_contain_text("Searched 20\u202f001 messages")
    matches = sum("777" in str(number) for number in range(20_000))
    eventually(lambda: received(page) == matches)
    page.get_by_label("Search in this stream").fill("CAFÉ")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("td.col-content")).to_have_text(['{"name": "caf\\u00e9"}'])
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".tail-state")).to_have_text("Live")


def test_the_search_in_a_large_stream_can_be_cancelled(console, api):
    body = json.dumps(["x" * 1000] * 10_000)
    api.put("/v1/stream/large", headers=JSON)
    for _ in range(6):
        api.post("/v1/stream/large", content=body, headers=JSON)
    page = console.open("stream/large?offset=now")
    page.get_by_label("Search in this stream").fill("nowhere")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.locator(".tail-state")).to_have_text("Live")


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
def test_a_download_holds_the_whole_stream(console, api, kind):
    path = "download-" + kind.replace("/", "-")
    api.put(f"/v1/stream/{path}", headers={"content-type": kind})
    content = b""
    for number in range(3):
        part = (str(number) * 600_000).encode()
        body = b'"%b"' % part if "json" in kind else part
        api.post(f"/v1/stream/{path}", content=body, headers={"content-type": kind})
        content += part
    page = console.open(f"stream/{path}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    saved = download.value.path().read_bytes()
    assert "".join(json.loads(saved)).encode() == content if "json" in kind else saved == content
