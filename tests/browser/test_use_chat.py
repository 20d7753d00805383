"""React's `useChat` with the published transport, unchanged, in a real Chromium: reloads, a second tab, a stop."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.ai.running import ChatApp, running_chat_app
from tests.support.browsers import WAIT_MS_MAX
from tests.support.node_packages import assert_pinned, bundle

PACKAGES = Path(__file__).parents[1] / "ai" / "use_chat"
HTML = """<!doctype html><html lang="en"><title>Chat</title><link rel="icon" href="data:,">
<body><script type="module" src="page.js"></script></body></html>"""


@pytest.fixture(scope="module")
def chat_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatApp]:
    pages = tmp_path_factory.mktemp("use-chat")
    bundle(PACKAGES / "page.js", PACKAGES, pages / "page.js")
    (pages / "index.html").write_text(HTML)
    with running_chat_app(str(pages)) as app:
        yield app


@pytest.fixture
def context(browser: Browser, chat_app: ChatApp) -> Iterator[BrowserContext]:
    chat_app.hold()
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS_MAX)
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(message.text)

    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on("console", note)
    yield context
    context.close()
    assert problems == []


@pytest.fixture
def url(chat_app: ChatApp) -> str:
    return f"{chat_app.url}/pages/index.html#{uuid4().hex}"


def visit(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    return page


def send(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def expect_answer(page: Page, text: str, status: str) -> None:
    expect(page.locator(".assistant")).to_have_text(text)
    expect(page.locator("output")).to_have_text(status)


def test_an_answer_continues_after_a_reload_and_in_a_second_tab(context, url, chat_app):
    page = visit(context, url)
    expect(page.locator("output")).to_have_text("ready")
    send(page, "wait")
    expect_answer(page, "Hello", "streaming")
    page.reload()
    expect_answer(page, "Hello", "streaming")
    second = visit(context, url)
    expect_answer(second, "Hello", "streaming")
    chat_app.release()
    for tab in (page, second):
        expect_answer(tab, "Hello, world", "ready")


def test_a_stop_in_one_tab_ends_the_answer_in_both(context, url):
    page = visit(context, url)
    send(page, "wait")
    expect_answer(page, "Hello", "streaming")
    second = visit(context, url)
    expect_answer(second, "Hello", "streaming")
    second.get_by_role("button", name="Stop").click()
    for tab in (page, second):
        expect_answer(tab, "Hello", "ready")


def test_a_failure_is_shown_and_the_next_message_is_answered(context, url):
    page = visit(context, url)
    send(page, "fail")
    expect(page.locator("output")).to_have_text("The run failed.")
    send(page, "hi")
    expect(page.locator(".assistant").last).to_have_text("Hello, world")
    expect(page.locator("output")).to_have_text("ready")


def test_the_lock_file_pins_packages_and_no_registry():
    assert_pinned(PACKAGES)
