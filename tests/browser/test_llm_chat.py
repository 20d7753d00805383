"""examples/llm_chat in a real Chromium: reloads, a second tab, stops, tokens, hostile text, and a model over HTTP."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, expect

from tests.docs.test_examples import EXAMPLES, free_port, running
from tests.support.browsers import DESKTOP, PHONE, WAIT_MS_MAX

APP = EXAMPLES / "llm_chat" / "app.py"
SCRIPT = "<img src=x onerror=alert(1)><script>alert(1)</script>"
STARTED = re.compile("This answer comes from")
FULL = re.compile(r"every page reads that stream\.\s*$")


class Person:
    """A browser profile with any number of tabs. `problems` are the errors that the browser has reported."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", **options})
        self.context.set_default_timeout(WAIT_MS_MAX)
        self.problems: list[str] = []

    def open(self, url: str | None = None) -> Page:
        page = self.context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", self._refuse)
        page.goto(url or self.url)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"a script ran: {dialog.message}")
        dialog.dismiss()


def send(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_role("button", name="Send").click()


def full_answer(text: str) -> str:
    """Return what the fake model answers."""
    source = APP.read_text()
    found = re.search(r'^FAKE_ANSWER = """(.*?)"""', source, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].replace("\\\n", "").format(text=text)


def read_answer(page: Page) -> str:
    return (page.locator(".answer").last.text_content() or "").removesuffix(" ")


def wait_for_the_end(page: Page) -> None:
    expect(page.locator(".answer").last).to_have_text(FULL)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


@pytest.fixture(scope="module")
def chat_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = str(tmp_path_factory.mktemp("chat") / "data")
    with running("llm_chat/app.py", DATA=data, PACE_MS="60", OPENAI_API_KEY="") as url:
        yield url


@pytest.fixture
def person(browser: Browser, chat_url: str) -> Iterator[Person]:
    person = Person(browser, chat_url)
    yield person
    person.context.close()
    assert person.problems == []


def test_an_answer_is_shown_whole_and_again_after_a_reload(person):
    page = person.open()
    expect(page.get_by_text("Write a message to begin.")).to_be_visible()
    send(page, "hello")
    expect(page.locator(".question")).to_have_text("hello")
    wait_for_the_end(page)
    assert read_answer(page) == full_answer("hello")
    page.reload()
    wait_for_the_end(page)
    assert page.locator(".question").all_text_contents() == ["hello"]
    assert read_answer(page) == full_answer("hello")


def test_a_reload_in_the_middle_loses_and_repeats_nothing(person):
    page = person.open()
    send(page, "reload me")
    for _ in range(3):
        expect(page.locator(".answer")).to_have_text(STARTED)
        page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()  # the answer is still being written
    wait_for_the_end(page)
    assert read_answer(page) == full_answer("reload me")
    assert page.locator("article").count() == 1


def test_a_second_tab_and_another_browser_join_in_the_middle(person, browser, chat_url):
    page = person.open()
    send(page, "first")
    wait_for_the_end(page)
    send(page, "join me")
    expect(page.locator(".answer").last).to_have_text(STARTED)
    stranger = Person(browser, chat_url)
    others = [person.open(page.url), stranger.open(page.url)]
    for other in others:
        expect(other.locator(".question")).to_have_text(["first", "join me"])
    for tab in [page, *others]:
        wait_for_the_end(tab)
        assert read_answer(tab) == full_answer("join me")
        assert tab.locator("article").count() == 2
    send(others[0], "and again")  # a tab that is open already follows, too
    for tab in [page, *others]:
        expect(tab.locator(".question")).to_have_text(["first", "join me", "and again"])
    stranger.context.close()
    assert stranger.problems == []


def test_a_stop_in_the_second_tab_stops_both(person):
    page = person.open()
    send(page, "stop me")
    expect(page.locator(".answer")).to_have_text(STARTED)
    other = person.open(page.url)
    other.get_by_role("button", name="Stop").click()
    for tab in (page, other):
        expect(tab.locator(".end")).to_have_text("Stopped.")
        expect(tab.get_by_role("button", name="Send")).to_be_visible()
    assert read_answer(page) == read_answer(other)
    assert full_answer("stop me").startswith(read_answer(page))
    assert len(read_answer(page)) < len(full_answer("stop me"))
    page.reload()
    expect(page.locator(".end")).to_have_text("Stopped.")
    send(page, "and on")
    expect(page.locator(".question")).to_have_text(["stop me", "and on"])


def test_hostile_text_is_shown_as_text(person):
    page = person.open()
    send(page, SCRIPT)
    expect(page.locator(".question")).to_have_text(SCRIPT)
    wait_for_the_end(page)
    assert read_answer(page) == full_answer(SCRIPT)
    assert page.locator("article img, article script").count() == 0


def test_the_tokens_of_an_answer_are_counted(person):
    page = person.open()
    send(page, "count")
    wait_for_the_end(page)
    expect(page.locator(".tokens")).to_have_text(f"{len(full_answer('count').split(' '))} tokens")


def test_an_answer_is_read_only_with_the_token_of_its_chat(person, chat_url):
    page = person.open()
    send(page, "mine")
    wait_for_the_end(page)
    other = person.open(f"{chat_url}/#{uuid4().hex}")
    expect(other.get_by_text("Write a message to begin.")).to_be_visible()
    mine, others = (urlsplit(httpx2.get(stream_url(tab)).headers["location"]) for tab in (page, other))

    def read(path: str, query: str) -> int:
        return httpx2.get(f"{chat_url}{path}?{query}").status_code

    assert read(mine.path, mine.query) == 200
    assert read(mine.path, "") == 401
    assert read(mine.path, others.query) == 403
    assert read("/log/v1/streams", mine.query) == 403


def stream_url(page: Page) -> str:
    address = urlsplit(page.url)
    return f"{address.scheme}://{address.netloc}/api/chat/{address.fragment}/stream"


def test_an_answer_goes_on_when_the_token_of_its_reader_expires(browser, tmp_path):
    with running("llm_chat/app.py", DATA=str(tmp_path / "data"), PACE_MS="60", URL_S="2", OPENAI_API_KEY="") as url:
        person = Person(browser, url)
        page = person.open()
        redirects: list[str] = []
        page.on("request", lambda request: redirects.append(request.url) if "signature=" in request.url else None)
        send(page, "slowly")
        wait_for_the_end(page)
        assert read_answer(page) == full_answer("slowly")
        assert len(set(redirects)) > 1
        person.context.close()
    # On a busy machine, a URL may expire on its way; the page then asks for another one.
    assert [problem for problem in person.problems if "401 (Unauthorized)" not in problem] == []


def test_a_lost_server_is_reported_until_it_is_back(browser, tmp_path):
    settings = {"DATA": str(tmp_path / "data"), "PORT": free_port(), "PACE_MS": "1", "OPENAI_API_KEY": ""}
    with running("llm_chat/app.py", **settings) as url:
        person = Person(browser, url)
        page = person.open()
        send(page, "hello")
        wait_for_the_end(page)
    notice = page.locator("#notice")
    expect(notice).to_have_text("Reconnecting …")
    expect(notice).not_to_have_class("bad")
    send(page, "lost")
    expect(notice).to_have_text("The server is not reachable. Try again in a moment.")
    expect(notice).to_have_class("bad")
    with running("llm_chat/app.py", **settings):
        expect(notice).to_be_hidden()
        page.get_by_role("button", name="Send").click()  # what was written is still there
        expect(page.locator(".question")).to_have_text(["hello", "lost"])
        wait_for_the_end(page)
        expect(notice).to_be_hidden()
        person.context.close()
    assert [problem for problem in person.problems if "net::ERR_" not in problem] == []


def test_a_new_chat_is_empty_and_the_old_one_stays(person):
    page = person.open()
    old = page.url
    send(page, "old")
    expect(page.locator(".question")).to_have_text("old")
    page.get_by_role("link", name="New chat").click()
    expect(page.get_by_text("Write a message to begin.")).to_be_visible()
    assert page.url != old
    expect(person.open(old).locator(".question")).to_have_text("old")


def test_the_page_fits_a_phone_in_the_dark(browser, chat_url):
    person = Person(browser, chat_url, viewport=PHONE, color_scheme="dark")
    page = person.open()
    send(page, "w" * 300)
    expect(page.locator(".answer")).to_have_text(STARTED)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    person.context.close()
    assert person.problems == []


# A model over HTTP


class Model(ThreadingHTTPServer):
    """A small fake of OpenAI's API. `requests` are the bodies and keys that it has received."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ModelHandler)
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []


class ModelHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Model)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, self.headers["authorization"], body))
        question = body["messages"][-1]["content"]
        failing = question == "fail"
        self.send_response(500 if failing else 200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if failing:
            return
        deltas: list[dict[str, Any]] = [{"role": "assistant"}, {"content": "Hello, "}, {"content": "wörld"}, {}]
        for delta in deltas if question != "say nothing" else []:
            event = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b'data: {"choices": [], "usage": {}}\n\ndata: [DONE]\n\n')

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        thread = threading.Thread(target=model.serve_forever)
        thread.start()
        yield model
        model.shutdown()
        thread.join()


def test_a_real_model_gets_the_whole_chat_and_its_failure_is_shown(browser, model, tmp_path):
    base = f"http://127.0.0.1:{model.server_port}/v1"
    settings = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": base, "MODEL": "small", "NO_PROXY": "*"}
    with running("llm_chat/app.py", DATA=str(tmp_path / "data"), **settings) as url:
        person = Person(browser, url)
        page = person.open()
        send(page, "hi")
        expect(page.locator(".answer")).to_have_text("Hello, wörld")
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        send(page, "fail")
        expect(page.locator(".end").last).to_have_text("The run failed.")
        person.context.close()
    assert person.problems == []
    hi, hello, fail = (
        {"role": role, "content": text}
        for role, text in (("user", "hi"), ("assistant", "Hello, wörld"), ("user", "fail"))
    )
    assert model.requests == [
        ("/v1/chat/completions", "Bearer secret", {"model": "small", "messages": messages, "stream": True})
        for messages in ([hi], [hi, hello, fail])
    ]


def test_an_answer_without_text_is_shown_as_such(browser, model, tmp_path):
    base = f"http://127.0.0.1:{model.server_port}/v1"
    settings = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": base, "NO_PROXY": "*"}
    with running("llm_chat/app.py", DATA=str(tmp_path / "data"), **settings) as url:
        person = Person(browser, url)
        page = person.open()
        send(page, "say nothing")
        expect(page.locator(".end")).to_have_text("(no answer)")
        expect(page.locator(".answer")).to_be_hidden()
        person.context.close()
    assert person.problems == []


def test_the_app_is_short():
    assert len(APP.read_text().splitlines()) < 120
    assert [path.name for path in APP.parent.glob("*.py")] == [Path(APP).name]
