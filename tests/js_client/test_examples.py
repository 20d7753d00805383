"""The to-do lists of examples/: two people, one of them offline, and everything that a browser may do to them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, expect

from mainstem.testing.server import ServerProcess
from tests.support.browsers import DESKTOP, PHONE, WAIT_MS_MAX
from tests.support.node_packages import assert_pinned, install

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = ("todo", "todo_react")
SCRIPT = "<img src=x onerror=alert(1)><script>alert(1)</script>"
HOSTILE = [
    SCRIPT,
    "javascript:alert(1)",
    "\u202etxt.exe",
    "{{7*7}} ${7*7} &lt;b&gt;",
    "\U0001f600 é\u0301 \u0000",
    "x" * 400,
]
EXPECTED = re.compile("Failed to load resource|WebSocket connection to .* failed")
"""What a browser reports about a network that the test has cut."""


class TodoPage:
    """One person with a browser profile of their own. `problems` are the errors that the browser has reported."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", **options})
        self.context.set_default_timeout(WAIT_MS_MAX)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.status = self.page.get_by_role("status")
        self.items = self.page.get_by_role("list", name="Items").get_by_role("listitem")
        self.texts = self.items.locator(".text")
        self.rejections = self.page.get_by_role("list", name="Refused changes").get_by_role("listitem")

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not EXPECTED.search(message.text):
            self.problems.append(message.text)

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"a script ran: {dialog.message}")
        dialog.dismiss()

    def open(self) -> "TodoPage":
        self.page.goto(self.url)
        expect(self.status).to_have_text("Live")
        return self

    def item(self, text: str) -> Locator:
        return self.items.filter(has_text=text)

    def add(self, text: str) -> None:
        self.page.get_by_label("New item").fill(text)
        self.page.get_by_role("button", name="Add").click()

    def rename(self, text: str, name: str) -> None:
        self.page.get_by_role("button", name=f"Rename {text}").click()
        self.page.get_by_role("textbox", name="New name").fill(name)
        self.page.keyboard.press("Enter")

    def tick(self, text: str) -> None:
        self.item(text).get_by_role("checkbox").check()

    def delete(self, text: str) -> None:
        self.page.get_by_role("button", name=f"Delete {text}").click()

    def expect_sent(self, *texts: str) -> None:
        """Wait until exactly these items are shown, and the server has committed all changes."""
        expect(self.texts).to_have_text([*texts])
        expect(self.status).to_have_text("Live")
        expect(self.items.locator(".draft:visible")).to_have_count(0)

    def keep_page(self) -> None:
        """Wait until the browser could open the page without a network."""
        self.page.wait_for_function("navigator.serviceWorker.controller !== null")
        self.page.wait_for_function("caches.match(location.href).then(Boolean)")

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


Visit = Callable[..., TodoPage]


@pytest.fixture(scope="module")
def pages(site: str) -> str:
    """The URL of the examples, with the packages that they need."""
    install(EXAMPLES / "todo_react")
    return f"{site}/examples"


@pytest.fixture(params=FOLDERS)
def visit(request: pytest.FixtureRequest, browser: Browser, pages: str, node: ServerProcess) -> Iterator[Visit]:
    """Make a person, with the list of this test. At the end, no browser may have reported an error."""
    people: list[TodoPage] = []

    def make(name: str = request.node.name, server: str = node.url, **options: Any) -> TodoPage:
        query = urlencode({"server": server, "list": name})
        people.append(TodoPage(browser, f"{pages}/{request.param}/?{query}", **options))
        return people[-1]

    yield make
    for person in people:
        person.close()


def test_two_people_edit_one_list_and_one_of_them_is_offline_for_a_while(visit):
    ada, bob = visit().open(), visit().open()
    for text in ("Milk", "Bread", "Cheese"):
        ada.add(text)
    expect(bob.texts).to_have_text(["Milk", "Bread", "Cheese"])
    ada.expect_sent("Milk", "Bread", "Cheese")

    bob.context.set_offline(True)
    bob.rename("Milk", "Oat milk")
    bob.tick("Oat milk")
    bob.rename("Bread", "Rye bread")
    bob.add("Tea")
    expect(bob.texts).to_have_text(["Oat milk", "Rye bread", "Cheese", "Tea"])
    expect(bob.item("Tea").locator(".draft")).to_be_visible()
    ada.rename("Milk", "Soya milk")
    ada.delete("Bread")
    ada.add("Jam")
    ada.expect_sent("Soya milk", "Cheese", "Jam")
    assert bob.texts.all_inner_texts() == ["Oat milk", "Rye bread", "Cheese", "Tea"]

    bob.context.set_offline(False)
    for person in (ada, bob):
        # Bob's name came later in the log, and what Ada has deleted stays deleted.
        person.expect_sent("Oat milk", "Cheese", "Jam", "Tea")
        expect(person.item("Oat milk").get_by_role("checkbox")).to_be_checked()


def test_the_page_opens_without_a_network_and_keeps_unsent_changes_across_reloads(visit):
    ada, bob = visit().open(), visit().open()
    ada.add("Milk")
    ada.expect_sent("Milk")
    ada.keep_page()
    ada.context.set_offline(True)
    ada.page.reload()
    expect(ada.status).to_have_text("Offline")
    expect(ada.texts).to_have_text(["Milk"])
    ada.add("Bread")
    ada.delete("Milk")
    expect(ada.status).to_have_text("Offline, 2 changes not sent yet")
    ada.page.reload()
    expect(ada.texts).to_have_text(["Bread"])
    expect(ada.status).to_have_text("Offline, 2 changes not sent yet")
    expect(ada.item("Bread").locator(".draft")).to_be_visible()

    ada.context.set_offline(False)
    ada.expect_sent("Bread")
    expect(bob.texts).to_have_text(["Bread"])


def test_unsent_changes_survive_the_end_of_the_server(visit, tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        ada = visit(server=server.url).open()
        ada.add("Milk")
        ada.expect_sent("Milk")
        server.flags = ("--port", server.url.rpartition(":")[2])  # the page knows this URL
        server.kill()
        expect(ada.status).to_have_text("Offline")
        ada.add("Bread")
        expect(ada.status).to_have_text("Offline, 1 change not sent yet")
        server.start()
        ada.expect_sent("Milk", "Bread")


def test_two_tabs_of_one_person_show_the_same(visit):
    ada = visit().open()
    second = ada.context.new_page()
    second.goto(ada.url)
    ada.add("Milk")
    expect(second.locator(".text")).to_have_text(["Milk"])
    expect(second.get_by_role("status")).to_have_text("Live")
    ada.page.close()
    expect(second.get_by_role("status")).to_have_text("Live")
    second.get_by_label("New item").fill("Bread")
    second.keyboard.press("Enter")
    expect(second.locator(".text")).to_have_text(["Milk", "Bread"])
    expect(second.locator(".draft:visible")).to_have_count(0)


def test_a_hostile_name_is_text(visit):
    ada = visit(SCRIPT).open()
    expect(ada.page.get_by_role("heading", level=1)).to_have_text(SCRIPT)
    before = ada.items.count()  # the other page has used the same list
    for text in HOSTILE:
        ada.add(text)
    expect(ada.items).to_have_count(before + len(HOSTILE))
    assert ada.texts.all_text_contents()[before:] == HOSTILE
    ada.rename("javascript:alert(1)", '"><svg onload=alert(1)>')
    expect(ada.texts.nth(before + 1)).to_have_text('"><svg onload=alert(1)>')
    assert ada.page.locator("main img, main script, main svg").count() == 0


def test_events_of_strangers_do_not_break_the_list(visit, node):
    ada = visit().open()
    ada.add("Milk")
    ada.expect_sent("Milk")
    ada.page.evaluate(
        """async ([server, list]) => {
          const { OfflineClient, memoryStore } = await import(`${server}/client/mainstem.js`);
          const client = new OfflineClient(server, { clientId: "stranger", store: memoryStore() });
          await client.open();
          const events = [
            {}, { type: "added" }, { type: "added", text: { html: "<b>" } },
            { type: "renamed", item: "__proto__", text: "x" },
            { type: "renamed", item: null, text: "x" }, { type: "ticked", item: ["a"] }, { type: "constructor" },
          ];
          for (const event of events) await client.submit([list], event);
          await client.submit([list], { type: "added", text: "Bread" }, { id: `__proto__ ${list}` });
          await client.synced();
          await client.close();
        }""",
        [node.url, ada.page.title()],
    )
    expect(ada.texts).to_have_text(["Milk", "Bread"])
    ada.tick("Bread")
    expect(ada.page.locator(".summary")).to_have_text("1 of 2 done")


def test_a_refused_change_is_shown_until_somebody_dismisses_it(visit, tmp_path):
    with ServerProcess(tmp_path / "data", "--sync-validation", "tree") as server:
        ada = visit(server=server.url).open()
        ada.add(SCRIPT)
        expect(ada.rejections).to_contain_text([f"Adding “{SCRIPT}” was refused: "])
        expect(ada.items).to_have_count(0)
        ada.page.reload()
        expect(ada.rejections).to_have_count(1)
        ada.rejections.get_by_role("button", name="Dismiss").click()
        expect(ada.rejections).to_have_count(0)
        ada.page.reload()
        expect(ada.status).to_have_text("Live")
        expect(ada.rejections).to_have_count(0)


def test_the_list_can_be_used_with_a_keyboard(visit):
    ada = visit().open()
    ada.add("Milk")
    edit = ada.page.get_by_role("button", name="Rename Milk")
    edit.press("Enter")
    expect(ada.page.get_by_role("textbox", name="New name")).to_be_focused()
    expect(ada.page.get_by_role("textbox", name="New name")).to_have_value("Milk")
    ada.page.keyboard.type("Never")
    ada.page.keyboard.press("Escape")
    expect(edit).to_be_focused()
    expect(ada.texts).to_have_text(["Milk"])
    ada.page.keyboard.press("Shift+Tab")
    expect(ada.page.get_by_role("checkbox")).to_be_focused()
    ada.page.keyboard.press("Space")
    expect(ada.page.locator(".summary")).to_have_text("1 of 1 done")
    ada.page.get_by_role("button", name="Delete Milk").press("Enter")
    expect(ada.items).to_have_count(0)
    expect(ada.page.get_by_label("New item")).to_be_focused()


def test_a_name_that_is_being_edited_survives_changes_of_others(visit):
    ada, bob = visit().open(), visit().open()
    ada.add("Milk")
    expect(bob.texts).to_have_text(["Milk"])
    bob.page.get_by_role("button", name="Rename Milk").click()
    bob.page.get_by_role("textbox", name="New name").fill("Oat mi")
    ada.add("Bread")
    expect(bob.items).to_have_count(2)
    bob.page.keyboard.type("lk")
    bob.page.keyboard.press("Enter")
    expect(ada.texts).to_have_text(["Oat milk", "Bread"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_fits_a_phone(visit, tmp_path, scheme):
    ada = visit(viewport=PHONE, color_scheme=scheme).open()
    ada.add("x" * 400)
    ada.add("A dozen eggs")
    expect(ada.items).to_have_count(2)
    assert ada.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for button in ada.page.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 44  # large enough for a finger


def test_a_page_that_never_reached_its_server_says_so(visit):
    ada = visit(server="http://127.0.0.1:9")
    ada.page.goto(ada.url)
    expect(ada.page.get_by_role("alert")).to_contain_text("Cannot open the list with http://127.0.0.1:9")
    ada.problems.clear()  # the plain page also lets the browser report it


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_example_is_listed(folder):
    assert f"({folder}/README.md)" in (EXAMPLES / "README.md").read_text()


def test_the_lock_file_pins_packages_and_no_registry():
    assert_pinned(EXAMPLES / "todo_react")
