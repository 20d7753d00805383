"""Sessions in the console: who is connected, and disconnecting them."""

import pytest
from playwright.sync_api import expect

from tests.support.blocking_peers import BlockingPeer
from tests.support.browsers import PHONE


@pytest.fixture
def empty(start_server):
    """A server to which nobody is connected."""
    return start_server("--store", "memory")


def test_the_list_follows_who_is_connected(open_console, empty):
    page = open_console(empty.url).open("sessions")
    expect(page.get_by_role("heading", name="Nobody is connected")).to_be_visible()
    expect(page.get_by_label("Command")).to_have_text(f"mainstem sync tail --url {empty.url} -p room")
    with BlockingPeer(empty.url, "tablet") as tablet, BlockingPeer(empty.url, "phone") as phone:
        tablet.subscribe("a", "b")
        phone.commit(["a"], {"n": 1}, {"n": 2})
        rows = page.locator("tbody:not(.spacer) tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0).locator("td")).to_contain_text(["tablet", "127.0.0.1", "s", "2", "0", "2", "0 B"])
        expect(rows.nth(1).locator("td")).to_contain_text(["phone", "127.0.0.1", "s", "0", "2", "0", "0 B"])
        phone.commit(["a"], {"n": 3})
        expect(rows.nth(0).locator("td")).to_contain_text(["tablet", "127.0.0.1", "s", "2", "0", "3"])
    expect(page.get_by_role("heading", name="Nobody is connected")).to_be_visible()


def test_a_session_is_disconnected_after_a_confirmation(open_console, empty):
    with BlockingPeer(empty.url, "stays"), BlockingPeer(empty.url, "goes") as goes:
        goes.subscribe("room/1")
        page = open_console(empty.url).open("sessions")
        page.get_by_text("goes").click()
        detail = page.get_by_role("region", name="Selected session")
        expect(detail.get_by_role("link", name="room/1")).to_be_visible()
        detail.get_by_role("button", name="Disconnect").click()
        dialog = page.get_by_role("dialog", name="Disconnect this session?")
        expect(dialog).to_contain_text("goes")
        dialog.get_by_role("button", name="Cancel").click()
        expect(page.locator("tbody:not(.spacer) tr")).to_have_count(2)
        detail.get_by_role("button", name="Disconnect").click()
        dialog.get_by_role("button", name="Disconnect").click()
        expect(page.get_by_text("The session is disconnected.")).to_be_visible()
        assert goes.close_code() == 1008
        expect(page.locator("tbody:not(.spacer) tr")).to_have_count(1)
        expect(detail).to_contain_text("This session has ended")
        expect(detail.get_by_role("button", name="Disconnect")).to_be_hidden()


def test_the_claims_of_a_session_are_shown(guarded, open_console):
    server, issuer = guarded
    claims = {"allowed_partitions": ["hall", "room-1"], "allowed_partition_prefixes": ["team-"], "sub": "alice@example"}
    token = issuer.token(client_id="alice", **claims)
    with BlockingPeer(server.url, "alice", token=token):
        page = open_console(server.url).open("sessions", issuer.token(admin=True))
        page.locator("td").get_by_text("alice", exact=True).click()
        detail = page.get_by_role("region", name="Selected session")
        expect(detail).to_contain_text("alice@example")
        expect(detail.locator("dd").filter(has_text="team-")).to_have_text("hall, room-1, team-…")
        page.get_by_label("Filter").fill("bob")
        expect(page.get_by_role("heading", name="No session matches")).to_be_visible()
        page.get_by_label("Filter").fill("EXAMPLE")
        expect(page.locator("tbody:not(.spacer) tr")).to_have_count(1)


def test_only_administrators_see_sessions(guarded, open_console):
    server, issuer = guarded
    page = open_console(server.url).open("sessions", issuer.token(allowed_partitions=["room"], client_id="alice"))
    expect(page.get_by_role("heading", name="Sessions is not available")).to_be_visible()
    expect(page.get_by_text("needs a token with the admin claim")).to_be_visible()


def test_a_hostile_client_id_is_text(open_console, empty):
    console = open_console(empty.url)
    console.page.on("dialog", lambda dialog: (console.problems.append(dialog.message), dialog.dismiss()))
    hostile = "\u202e<img src=x onerror=alert(1)>"
    with BlockingPeer(empty.url, hostile) as peer:
        peer.subscribe(hostile)
        page = console.open("sessions")
        seen = hostile.replace("\u202e", "\\u202e")
        page.get_by_text(seen).click()
        expect(page.get_by_role("region", name="Selected session").get_by_role("link")).to_have_text(seen)
        page.get_by_role("button", name="Disconnect").click()
        expect(page.get_by_role("dialog")).to_contain_text(seen)
        assert page.locator("main img, dialog img").count() == 0


def test_the_keyboard_selects_a_session_which_stays_selected(open_console, empty):
    with BlockingPeer(empty.url, "one") as one, BlockingPeer(empty.url, "two"):
        page = open_console(empty.url).open("sessions")
        expect(page.locator("tbody:not(.spacer) tr")).to_have_count(2)
        page.locator("tbody tr[tabindex='0']").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        detail = page.get_by_role("region", name="Selected session")
        expect(detail).to_contain_text("two")
        one.commit(["a"], {"n": 1})
        expect(page.locator("tbody:not(.spacer) tr").first.locator("td").nth(4)).to_have_text("1")
        expect(page.locator("tr[aria-selected='true']")).to_contain_text("two")
        expect(page.locator("tr[aria-selected='true']")).to_be_focused()


def test_a_phone_shows_a_session(open_console, empty):
    with BlockingPeer(empty.url, "x" * 200):
        page = open_console(empty.url, viewport=PHONE).open("sessions")
        page.get_by_text("xxx").click()
        expect(page.get_by_role("button", name="Disconnect")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.get_by_role("region", name="Selected session").get_by_role("button", name="Close").click()
        expect(page.get_by_role("button", name="Disconnect")).to_be_hidden()
