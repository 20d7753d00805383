"""Subscriptions in the console: what they wait for, and pausing, resuming and redelivering."""

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.support.browsers import PHONE
from tests.support.issuers import bearer
from tests.support.subscribers import Subscriber, append
from tests.support.webhook_receivers import DONE, FAILED


@pytest.fixture
def server(start_server):
    return start_server("--store", "memory", "--allow-local-webhooks")


@pytest.fixture
def http(server, connect_to):
    return connect_to(server)


def test_an_empty_server_shows_how_to_begin(open_console, server):
    page = open_console(server.url).open("subscriptions")
    expect(page.get_by_role("heading", name="No subscriptions yet")).to_be_visible()
    expect(page.get_by_label("Command")).to_contain_text(f"mainstem subscription create billing --url {server.url}")


def test_a_webhook_that_fails_is_shown_with_its_error_and_recovers(open_console, server, http, receive):
    receiver = receive(lambda call: FAILED)
    append(http, "orders/1")
    subscriber = Subscriber(http, "billing").listen(receiver.url, pattern="orders/*")
    append(http, "orders/1", b"x" * 100)
    page = open_console(server.url).open("subscriptions")
    row = page.locator("tbody tr").filter(has_text="billing")
    expect(row.locator("td.col-status")).to_have_text("failed")
    expect(row.locator("td.col-error")).to_contain_text("failed")
    row.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("billing")
    expect(page.get_by_role("region", name="Last error")).to_contain_text(subscriber.inspect()["last_error"]["reason"])
    stream = page.locator("tbody tr").filter(has_text="orders/1")
    expect(stream.locator("td.col-size")).to_have_text("100 B")
    expect(page.get_by_text("1 with new data, 100 B in all")).to_be_visible()
    receiver.answer = lambda call: DONE
    page.get_by_role("button", name="Redeliver").click()
    page.get_by_role("dialog").get_by_role("button", name="Redeliver").click()
    expect(page.get_by_text("1 stream; all are acknowledged")).to_be_visible()
    expect(page.locator("main").get_by_text("active", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Last error")).to_have_count(0)


def test_a_subscription_is_paused_and_resumed_after_confirmations(open_console, server, http):
    append(http, "jobs/1")
    subscriber = Subscriber(http, "workers").pull("wake/workers", pattern="jobs/*")
    page = open_console(server.url).open("subscription/workers")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert not subscriber.inspect()["paused"]
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("main").get_by_text("paused", exact=True)).to_be_visible()
    assert subscriber.inspect()["paused"]
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.locator("main").get_by_text("active", exact=True)).to_be_visible()
    assert not subscriber.inspect()["paused"]


def test_a_lease_shows_its_holder_and_a_stream_can_be_moved_back(open_console, server, http):
    append(http, "parcels/1", b"one")
    subscriber = Subscriber(http, "courier").pull("wake/courier", pattern="parcels/*")
    http.put("/v1/stream/wake/courier", json=[])
    append(http, "parcels/1", b"two")
    claimed = http.post(subscriber.url + "/claim", json={"worker": "worker-7"})
    assert claimed.status_code == 200, claimed.text
    page = open_console(server.url).open("subscription/courier")
    expect(page.locator("dd").filter(has_text="worker-7")).to_contain_text("left")
    assert subscriber.cursors()["parcels/1"]["lag_bytes"] == 3
    page.get_by_role("button", name="Redeliver").click()
    dialog = page.get_by_role("dialog", name="Deliver again?")
    expect(dialog.get_by_label("From the offset")).to_be_hidden()
    dialog.get_by_label("Move one stream back first").select_option("parcels/1")
    dialog.get_by_label("From the offset").fill("nonsense")
    dialog.get_by_role("button", name="Redeliver").click()
    expect(dialog.get_by_role("alert")).to_contain_text("offset")
    dialog.get_by_label("From the offset").fill("-1")
    dialog.get_by_role("button", name="Redeliver").click()
    expect(page.locator("td.col-size")).to_have_text("6 B")
    assert subscriber.inspect()["holder"] is None


def test_the_list_is_filtered_and_leads_to_streams(open_console, server, http):
    for name in ("a-1", "a-2", "b-1"):
        Subscriber(http, name).pull("wake/" + name, pattern="things/*")
    page = open_console(server.url).open("subscriptions")
    page.get_by_label("Begins with").fill("a-")
    expect(page.locator("td.col-path a")).to_have_text(["a-1", "a-2"])
    page.get_by_role("link", name="a-2").click()
    expect(page.get_by_role("heading", name="No streams yet")).to_be_visible()
    append(http, "things/1")
    page.get_by_role("link", name="things/1").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("things/1")


def test_a_subscription_that_is_deleted_offers_nothing(open_console, server, http):
    subscriber = Subscriber(http, "gone").pull("wake/gone", pattern="x/*")
    page = open_console(server.url).open("subscription/gone")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    subscriber.delete()
    expect(page.get_by_text("deleted", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()
    expect(page.get_by_role("button", name="Redeliver")).to_be_hidden()


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "\u202eabc", "a?b#c %2e"])
def test_hostile_ids_and_paths_are_text(open_console, server, http, name):
    console = open_console(server.url)
    console.page.on("dialog", lambda dialog: (console.problems.append(dialog.message), dialog.dismiss()))
    http.put("/v1/stream/" + quote(name), content=b"x", headers={"content-type": "text/plain"})
    Subscriber(http, quote(name, safe="")).pull("wake/h", streams=[name])
    seen = name.replace("\u202e", "\\u202e")
    page = console.open("subscriptions")
    page.get_by_role("link", name=seen, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(seen)
    expect(page.get_by_role("link", name=seen, exact=True)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("main").get_by_text("paused", exact=True)).to_be_visible()
    assert page.locator("main img").count() == 0


def test_only_administrators_see_subscriptions(guarded, open_console, connect_to):
    server, issuer = guarded
    admin = bearer(issuer.token(admin=True))
    body = {"type": "pull-wake", "wake_stream": "wake/x", "pattern": "x/*"}
    made = connect_to(server).put("/v1/stream/__ds/subscriptions/private", json=body, headers=admin)
    assert made.status_code == 201, made.text
    page = open_console(server.url).open("subscription/private", issuer.token(streams=["**"]))
    expect(page.get_by_role("heading", name="Subscription is not available")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Subscriptions")).to_have_count(0)


@pytest.mark.parametrize("address", ["subscriptions", "subscription/" + "y" * 200])
def test_a_phone_shows_everything(open_console, server, http, address):
    append(http, "long/" + "x" * 300)
    Subscriber(http, "y" * 200).pull("wake/" + "w" * 200, pattern="long/*")
    page = open_console(server.url, viewport=PHONE).open(address)
    expect(page.locator("td.col-path a").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
