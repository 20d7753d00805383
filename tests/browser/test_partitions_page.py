"""Partitions in the console: the list, events live, the snapshot, and submitting an event."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.support.blocking_peers import BlockingPeer
from tests.support.browsers import PHONE
from tests.support.issuers import bearer
from tests.support.waits import eventually

HOSTILE = ["<img src=x onerror=alert(1)>", "\u202etxt.exe", "a/../b", "\U0001f600 %2e%2e&amp;"]

EVENT = {"file": "\u202e<img src=x onerror=alert(1)>", "event": {"committed_id": 0}, "t": '}],"id":{\\"', "": [{}, []]}


@pytest.fixture
def peer(node):
    with BlockingPeer(node.url, "tablet") as peer:
        yield peer


def show(name: str) -> str:
    return f"partition/{quote(name, safe='')}"


def submit(page: Page, event: str) -> None:
    page.get_by_role("button", name="Submit an event").first.click()
    dialog = page.get_by_role("dialog", name="Submit an event")
    dialog.get_by_label("Event").fill(event)
    dialog.get_by_role("button", name="Submit", exact=True).click()


def test_an_empty_server_shows_how_to_begin_and_the_first_event_can_be_submitted(open_console, start_server):
    server = start_server("--store", "memory")
    page = open_console(server.url).open("partitions")
    expect(page.get_by_role("heading", name="No partitions yet")).to_be_visible()
    command = page.get_by_label("Command")
    expect(command).to_have_text(f"""mainstem sync submit --url {server.url} -p room -m '{{"text": "hello"}}'""")
    page.get_by_role("button", name="Submit an event").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Partition", exact=True).fill("first")
    dialog.get_by_label("Event").fill('{"text": "hello"}')
    dialog.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("first")
    expect(page.locator("td.col-content")).to_have_text(['{"text": "hello"}'])


def test_the_list_is_filtered_by_prefix_and_follows_what_happens(console, peer):
    for name in ("list-a", "list-b", "other"):
        peer.commit([name], {"n": 1})
    page = console.open("partitions")
    expect(page.get_by_role("link", name="other", exact=True)).to_be_visible()
    page.get_by_label("Begins with").fill("list-")
    expect(page.locator("td.col-path a")).to_have_text(["list-a", "list-b"])
    peer.commit(["list-c"], {"n": 1})
    expect(page.locator("td.col-path a")).to_have_text(["list-a", "list-b", "list-c"])
    page.reload()
    expect(page.locator("td.col-path a")).to_have_text(["list-a", "list-b", "list-c"])
    page.get_by_label("Begins with").fill("list-z")
    expect(page.get_by_role("heading", name="No partition matches")).to_be_visible()


def test_events_appear_as_they_are_committed_and_submitted(console, peer):
    peer.commit(["live"], {"n": 1})
    page = console.open(show("live"))
    expect(page.locator("td.col-content")).to_have_text(['{"n": 1}'])
    peer.commit(["live", "elsewhere"], {"n": 2})
    submit(page, '{"n": 12345678901234567890.10}')
    expect(page.locator("td.col-content")).to_have_text(['{"n": 1}', '{"n": 2}', '{"n": 12345678901234567890.10}'])
    expect(page.locator("td.col-client")).to_have_text(["tablet", "tablet", "console"])
    page.locator("td.col-content").nth(1).click()
    expect(page.get_by_label("Content", exact=True)).to_have_text('{\n  "n": 2\n}')
    page.locator(".detail").get_by_role("link", name="elsewhere").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("elsewhere")
    expect(page.locator("td.col-content")).to_have_text(['{"n": 2}'])


def test_only_objects_are_events_and_other_partitions_receive_them_too(console, api):
    page = console.open(show("strict"))
    expect(page.get_by_text("No events yet")).to_be_visible()
    submit(page, "[1]")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("An event is a JSON object")
    dialog.get_by_label("Event").fill('{"n": 1e999}')
    dialog.get_by_role("button", name="Submit", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("The server rejected the event")
    dialog.get_by_label("Event").fill('{"n": 1}')
    dialog.get_by_text("Other partitions").click()
    dialog.get_by_label("Names, one per line").fill("strict-2\nstrict-3")
    dialog.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("td.col-content")).to_have_text(['{"n": 1}'])
    assert api.get("/v1/partition/strict-3").json()[0]["partitions"] == ["strict", "strict-2", "strict-3"]


def test_the_latest_events_of_a_sparse_partition_come_first(console, peer):
    """Events of a partition may be any distance apart in the log, and only those near its end are read at first."""
    for first in range(0, 600, 100):
        peer.commit(["dense"], *[{"n": n} for n in range(first, first + 100)])
    peer.commit(["sparse"], {"n": "old"})
    for _ in range(6):
        peer.commit(["dense"], *[{}] * 100)
    peer.commit(["sparse"], {"n": "new"})
    page = console.open(show("sparse"))
    expect(page.locator("td.col-content")).to_have_text(['{"n": "old"}', '{"n": "new"}'])
    page.goto(page.url.replace("sparse", "dense"))
    expect(page.locator("td.col-content").last).to_have_text("{}")
    expect(page.locator(".tail-state")).to_have_text("Live")
    received = int((page.locator(".tail-numbers").text_content() or "").partition(" received")[0])
    assert 100 <= received < 300
    page.get_by_label("Show", exact=True).select_option("beginning")
    expect(page.locator(".tail-numbers")).to_contain_text("1\u202f200 received")


def test_a_jump_begins_after_a_committed_id(console, peer):
    first, second, _ = peer.commit(["jump"], {"n": 1}, {"n": 2}, {"n": 3})
    assert first < second
    page = console.open(show("jump"))
    page.get_by_label("Show", exact=True).select_option("id")
    page.get_by_label("Committed id").fill(str(second))
    page.get_by_role("button", name="Go").click()
    expect(page.locator("td.col-content")).to_have_text(['{"n": 3}'])
    page.reload()
    expect(page.locator("td.col-content")).to_have_text(['{"n": 3}'])


def test_the_snapshot_is_shown_as_it_was_stored(console, api, peer):
    *_, last = peer.commit(["shot"], {"n": 1}, {"n": 2})
    page = console.open(show("shot"))
    expect(page.get_by_text("no snapshot")).to_be_visible()
    expect(page.get_by_role("button", name="Show the snapshot")).to_have_count(0)
    body = f'{{"committed_id": {last}, "state": {{"total": 3.10, "html": "<script>"}}}}'
    assert api.put("/v1/snapshot/shot", content=body).status_code == 204
    page.get_by_role("button", name="Show the snapshot").click()
    snapshot = page.get_by_role("region", name="Snapshot")
    expect(snapshot.get_by_label("Content", exact=True)).to_have_text('{\n  "total": 3.10,\n  "html": "<script>"\n}')
    snapshot.get_by_role("button", name="Hide").click()
    expect(snapshot).to_have_count(0)


def test_pruned_history_is_announced(console, api, peer):
    first, _ = peer.commit(["pruned"], {"n": 1}, {"n": 2})
    assert api.post("/v1/prune", json={"floors": {"pruned": first}}).status_code == 202
    page = console.open(show("pruned"))
    expect(page.locator("td.col-content")).to_have_text(['{"n": 2}'])
    page.get_by_label("Show", exact=True).select_option("id")
    page.get_by_label("Committed id").fill(str(first - 1))
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".tail-state")).to_contain_text("has been pruned")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_clients_and_events_are_text(console, node, name):
    console.page.on("dialog", lambda dialog: (console.problems.append(dialog.message), dialog.dismiss()))
    with BlockingPeer(node.url, "\u202e<b>client") as peer:
        peer.commit([name], EVENT)
    seen = name.replace("\u202e", "\\u202e")
    page = console.open("partitions")
    page.get_by_role("link", name=seen, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(seen)
    expect(page.locator("td.col-content")).to_have_text(
        json.dumps(EVENT, ensure_ascii=False).replace("\u202e", "\\u202e")
    )
    expect(page.locator("td.col-client")).to_have_text("\\u202e<b>client")
    submit(page, json.dumps({"from": "console"}))
    expect(page.locator("td.col-content")).to_have_count(2)
    assert page.locator("main img, main script, main b").count() == 0


def test_an_event_whose_reply_is_lost_is_committed_once(console, api):
    """A second attempt has the same id, so the server recognises the event."""
    lost: list[str] = []

    def relay(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def receive(message: str | bytes) -> None:
            if not lost and "submit_events_result" in str(message):
                lost.append(str(message))
                route.close()
            else:
                route.send(message)

        server.on_message(receive)

    console.page.route_web_socket("**/v1/sync", relay)
    page = console.open(show("once"))
    submit(page, '{"n": 1}')
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("it is unknown whether the event was committed")
    dialog.get_by_role("button", name="Submit", exact=True).click()
    expect(dialog).to_have_count(0)
    assert len(lost) == 1
    assert [event["event"] for event in api.get("/v1/partition/once").json()] == [{"n": 1}]


def test_many_partitions_are_loaded_as_one_scrolls(open_console, start_server):
    count = 2500
    server = start_server("--store", "memory")
    with BlockingPeer(server.url, "tablet") as peer:
        for first in range(0, count, 50):
            names = [f"p-{number:05}" for number in range(first, first + 50)]
            peer.commit(names, {"n": first})
    page = open_console(server.url).open("partitions")
    expect(page.get_by_text("partitions loaded; more follow")).to_be_visible()
    page.locator("tbody tr[tabindex='0']").focus()
    eventually(lambda: (page.keyboard.press("End"), page.get_by_text("2\u202f500 partitions").count())[1])
    page.keyboard.press("End")
    expect(page.get_by_role("link", name=f"p-{count - 1:05}")).to_be_visible()
    assert page.locator("tbody tr").count() < 100


# Tokens


def test_a_token_sees_its_own_partitions_and_submits_under_its_name(guarded, open_console):
    server, issuer = guarded
    token = issuer.token(admin=True, client_id="root")
    with BlockingPeer(server.url, "root", token=token) as peer:
        for name in ("mine-1", "theirs-1"):
            peer.commit([name], {"n": 1})
    console = open_console(server.url)
    page = console.open("partitions", issuer.token(client_id="alice", allowed_partition_prefixes=["mine-"]))
    expect(page.locator("td.col-path a")).to_have_text(["mine-1"])
    page.get_by_role("link", name="mine-1").click()
    submit(page, '{"n": 2}')
    expect(page.locator("td.col-client")).to_have_text(["root", "alice"])
    expect(page.get_by_role("button", name="Show the snapshot")).to_have_count(0)
    for label in ("Sessions", "Subscriptions", "Pipeline"):
        expect(page.get_by_role("navigation").get_by_role("link", name=label)).to_have_count(0)


def test_a_token_without_a_client_id_may_look_but_not_submit(guarded, open_console):
    server, issuer = guarded
    page = open_console(server.url).open("partitions", issuer.token(allowed_partitions=["quiet"]))
    expect(page.get_by_role("heading", name="No partitions yet")).to_be_visible()
    expect(page.get_by_role("button", name="Submit an event")).to_have_count(0)
    page.goto(f"{server.url}/console/#/partition/quiet")
    expect(page.locator(".tail-state")).to_have_text("Live")
    expect(page.get_by_role("button", name="Submit an event")).to_have_count(0)


def test_a_token_without_partitions_is_not_offered_the_page(guarded, open_console):
    server, issuer = guarded
    page = open_console(server.url).open("partitions", issuer.token(streams=["**"]))
    expect(page.get_by_role("heading", name="Partitions is not available")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Partitions")).to_have_count(0)


def test_a_snapshot_needs_an_administrator(guarded, open_console, connect_to):
    server, issuer = guarded
    admin = issuer.token(admin=True, client_id="root")
    with BlockingPeer(server.url, "root", token=admin) as peer:
        (committed,) = peer.commit(["kept"], {"n": 1})
    body = {"committed_id": committed, "state": {}}
    assert connect_to(server).put("/v1/snapshot/kept", json=body, headers=bearer(admin)).status_code == 204
    console = open_console(server.url)
    page = console.open(show("kept"), issuer.token(client_id="bob", allowed_partitions=["kept"]))
    expect(page.get_by_text("Snapshot up to")).to_be_visible()
    expect(page.get_by_role("button", name="Show the snapshot")).to_have_count(0)
    page.get_by_role("button", name="Use another token").click()
    console.sign_in(admin)
    expect(page.get_by_role("button", name="Show the snapshot")).to_be_visible()


# Faults, phone, names of controls


def test_an_event_for_a_server_that_is_away_is_not_submitted(start_on_fixed_port, open_console):
    server = start_on_fixed_port()
    console = open_console(server.url)
    page = console.open(show("away"))
    expect(page.locator(".tail-state")).to_have_text("Live")
    page.get_by_role("button", name="Submit an event").click()
    page.get_by_role("dialog").get_by_label("Event").fill('{"n": 1}')
    server.kill()
    page.get_by_role("dialog").get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    server.start()
    page.get_by_role("dialog").get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("td.col-content")).to_have_text(['{"n": 1}'])
    console.problems[:] = [text for text in console.problems if "WebSocket connection" not in text]


@pytest.mark.parametrize("address", ["partitions", show("phone-" + "x" * 100)])
def test_a_phone_shows_everything(open_console, node, peer, address):
    peer.commit(["phone-" + "x" * 100], {"text": "w" * 500})
    page = open_console(node.url, viewport=PHONE).open(address)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("tbody tr td a, td.col-content").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_keyboard_reaches_an_event(console, peer):
    peer.commit(["keys"], *[{"n": n} for n in range(100)])  # more than fit, so that the first ones are out of view
    page = console.open()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", level=1)).to_have_text("Partitions")
    page.get_by_label("Begins with").fill("keys")
    expect(page.locator("td.col-path a")).to_have_text(["keys"])
    page.locator("tbody tr[tabindex='0']").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("keys")
    expect(page.get_by_text('{"n": 99}')).to_be_visible()
    page.locator("tbody tr[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Content", exact=True)).to_have_text('{\n  "n": 0\n}')
    page.keyboard.press("a")
    expect(page.get_by_role("dialog", name="Submit an event")).to_be_visible()
