"""The pages: what they show, what one can do there, with a mouse, with a keyboard, and on a phone."""

import json
import socket

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsers import PHONE
from tests.support.waits import eventually

ADDRESSES = [
    "",
    "streams",
    "stream/wide%2Fname",
    "partitions",
    "partition/room",
    "log",
    "subscriptions",
    "sessions",
    "pipeline",
    "nothing",
]


@pytest.fixture(autouse=True)
def streams(api):
    api.put("/v1/stream/wide/name", json=[{"text": "w" * 500}, {"n": 1}])
    long = "very-long-" + "x" * 400
    api.put(f"/v1/stream/{long}", json=[1])


def opened(page: Page) -> None:
    expect(page.locator("main h1, main h2").first).to_be_visible()


# Commands


def test_a_stream_is_created_filled_closed_and_deleted(console, api):
    page = console.open("streams")
    page.get_by_role("button", name="Create a stream").click()
    page.get_by_label("Name").fill("made/here")
    page.get_by_label("Expires after").fill("3600")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made/here")
    expect(page.get_by_text("1 h unused")).to_be_visible()
    page.get_by_role("button", name="Append").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("JSON").fill('{"broken": ')
    dialog.get_by_role("button", name="Append").click()
    expect(dialog.get_by_role("alert")).to_have_text("This is not valid JSON.")
    dialog.get_by_label("JSON").fill('[{"a": 1}, 2]')
    dialog.get_by_role("button", name="Append").click()
    expect(page.locator("td.col-content")).to_have_text(['{"a": 1}', "2"])
    page.get_by_role("button", name="Close").click()
    page.get_by_role("dialog").get_by_role("button", name="Close the stream").click()
    expect(page.get_by_role("button", name="Append")).to_have_count(0)
    assert api.head("/v1/stream/made/here").headers["stream-closed"] == "true"
    page.get_by_role("button", name="Delete").click()
    delete = page.get_by_role("dialog").get_by_role("button", name="Delete the stream")
    expect(delete).to_be_disabled()
    page.get_by_label("Type made/here to confirm").fill("made/her")
    expect(delete).to_be_disabled()
    page.get_by_label("Type made/here to confirm").fill("made/here")
    delete.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    assert api.head("/v1/stream/made/here").status_code == 404


def test_an_error_of_the_server_is_shown_in_the_dialog(console, api):
    api.put("/v1/stream/taken", json=[1])
    page = console.open("streams")
    page.get_by_role("button", name="Create a stream").click()
    page.get_by_label("Name").fill("taken")
    page.get_by_label("Content", exact=True).select_option("text/plain")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("already exists")


def test_forks_are_a_tree(console, api):
    api.put("/v1/stream/tree/b", json=[1])
    api.put("/v1/stream/tree/a", headers={"stream-forked-from": "/v1/stream/tree/b"})
    api.put("/v1/stream/tree/c", headers={"stream-forked-from": "/v1/stream/tree/a"})
    page = console.open("streams?prefix=tree/")
    names = page.locator("td.col-path a")
    expect(names).to_have_text(["tree/a", "tree/b", "tree/c"])
    page.get_by_label("Forks as a tree").check()
    expect(names).to_have_text(["tree/b", "tree/a", "tree/c"])
    expect(page.locator("td.col-path .indent")).to_have_count(2)


def test_the_list_of_streams_is_filtered_by_prefix_and_by_search(console, api):
    for name in ("find/Alpha", "find/beta", "other/alpha"):
        api.put(f"/v1/stream/{name}", json=[1])
    page = console.open("streams")
    page.get_by_label("Search").fill("ALPHA")
    expect(page.locator("td.col-path a")).to_have_text(["find/Alpha", "other/alpha"])
    page.get_by_label("Begins with").fill("find/")
    expect(page.locator("td.col-path a")).to_have_text(["find/Alpha"])
    page.reload()
    expect(page.locator("td.col-path a")).to_have_text(["find/Alpha"])
    page.get_by_label("Search").fill("nowhere")
    expect(page.get_by_text("No stream matches")).to_be_visible()


def test_the_log_is_filtered_and_leads_to_the_stream(console, api):
    api.put("/v1/stream/logged/1", json=[{"x": 1}])
    api.put("/v1/stream/logged/2", json=[{"x": 2}])
    page = console.open("log")
    page.get_by_label("Stream or glob").fill("logged/*")
    page.get_by_label("Start at").select_option("beginning")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("td.col-content")).to_have_text(['{"x":1}', '{"x":2}'])
    api.post("/v1/stream/logged/1", json=[{"x": 3}])
    expect(page.locator("td.col-content")).to_have_text(['{"x":1}', '{"x":2}', '{"x":3}'])
    page.locator("td.col-content").nth(1).click()
    page.locator(".detail").get_by_role("link", name="logged/2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("logged/2")
    expect(page.locator("td.col-content")).to_have_text(['{"x":2}'])


def test_the_overview_draws_what_happens(console, api):
    page = console.open()
    expect(page.get_by_text("Head of the log")).to_be_visible()
    chart = page.get_by_role("img", name="Appends and commits per second")

    def appended() -> bool:
        api.post("/v1/stream/wide/name", json=[1])
        return "records –" not in (label := chart.get_attribute("aria-label") or "") and "records 0," not in label

    eventually(appended)
    expect(page.get_by_role("region", name="Last jobs")).to_be_visible()


# Many streams


def test_twenty_thousand_streams_scroll_without_filling_the_page(open_console, start_server):
    """The list loads what one looks at, and keeps few rows in the document."""
    count = 20_000
    server = start_server("--store", "memory")
    fill(server.address, count)
    page = open_console(server.url).open("streams")
    expect(page.get_by_text("streams loaded; more follow")).to_be_visible()
    page.locator("tbody tr[tabindex='0']").focus()
    eventually(lambda: (page.keyboard.press("End"), page.get_by_text(f"{count // 1000}\u202f000 streams").count())[1])
    page.keyboard.press("End")
    expect(page.get_by_role("link", name=f"s/{count - 1:06}")).to_be_visible()
    assert page.locator("tbody tr").count() < 100
    page.get_by_label("Search").fill(f"{count // 2:06}")
    expect(page.locator("td.col-path a")).to_have_text([f"s/{count // 2:06}"])


def fill(address: tuple[str, int], count: int) -> None:
    """Create streams over one connection, without waiting for each reply."""
    with socket.create_connection(address) as connection:
        replies = 0
        for first in range(0, count, 100):
            requests = [
                f"PUT /v1/stream/s/{n:06} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
                for n in range(first, first + 100)
            ]
            connection.sendall("".join(requests).encode())
            data = b""
            while data.count(b"HTTP/1.1 201") < 100:
                data += connection.recv(65_536)
            replies += 100
    assert replies == count


# Keyboard, phone, policy


def test_everything_can_be_reached_with_the_keyboard(console, api):
    api.put("/v1/stream/keyboard", json=[1, {"n": 1}])
    page = console.open("streams")
    expect(page.get_by_role("link", name="keyboard")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("keyb")  # letters are text here, and no shortcuts
    expect(page.locator("td.col-path a")).to_have_text(["keyboard"])
    page.locator("tbody tr[tabindex='0']").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("keyboard")
    expect(page.locator("td.col-content").first).to_be_visible()
    page.locator("tbody tr[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Content", exact=True)).to_have_text('{\n  "n": 1\n}')
    page.keyboard.press("p")
    expect(page.locator(".tail-state")).to_have_text("Paused")
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log")


def test_the_focus_is_visible(console):
    page = console.open("streams")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_page_is_wider_than_a_phone(open_console, node, address):
    page = open_console(node.url, viewport=PHONE).open(address)
    opened(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_menu_of_a_phone_leads_to_the_pages(open_console, node):
    page = open_console(node.url, viewport=PHONE).open()
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Streams")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    expect(link).to_be_hidden()


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_control_has_a_name_and_every_page_its_landmarks(console, address):
    page = console.open(address)
    opened(page)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, a")]
          .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length))
          .map((node) => node.outerHTML)"""
    )
    assert unnamed == []
    for role in ("banner", "navigation", "main"):
        expect(page.get_by_role(role)).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_can_be_chosen(open_console, node, scheme):
    page = open_console(node.url, color_scheme=scheme).open()
    background = "getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(246, 248, 248)", "dark": "rgb(14, 20, 19)"}
    assert page.evaluate(background) == colours[scheme]
    for expected in ("light", "dark"):
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate(background) == colours[expected]
    page.reload()
    assert page.evaluate(background) == colours["dark"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_page_breaks_the_policy(console, address):
    page = console.open(address)
    opened(page)
    assert console.problems == []
    refused = page.evaluate(
        """() => {
          try { document.body.innerHTML = "<b>x</b>"; return "allowed"; } catch (error) { return error.name; }
        }"""
    )
    assert refused == "TypeError"
    console.problems.clear()  # the refusal that this test has caused


def test_the_front_page_has_lines_that_work(console, node, api):
    page = console.page
    page.goto(node.url + "/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Mainstem")
    create, read = page.locator("pre").all_text_contents()
    assert create.startswith(f"curl -i -X PUT {node.url}/v1/stream/hello ")
    assert read == f"curl {node.url}/v1/stream/hello"
    assert json.loads(create.partition("-d '")[2].rstrip("'")) == [{"text": "hello"}]
    page.get_by_role("link", name="Console").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
