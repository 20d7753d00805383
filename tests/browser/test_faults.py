"""The console while the server is away, and while a token is missing, expired or allows little."""

import time

import httpx2
import pytest
from playwright.sync_api import expect

from mainstem.testing.server import ServerProcess
from tests.support.issuers import bearer
from tests.support.waits import eventually

JSON = {"content-type": "application/json"}


@pytest.fixture
def restarting(start_on_fixed_port):
    """A server that keeps its address across restarts."""
    return start_on_fixed_port()


def send(server: ServerProcess, method: str, path: str, **options) -> httpx2.Response:
    with httpx2.Client(base_url=server.url, trust_env=False, verify=False) as client:
        return client.request(method, path, **options)


def test_a_restart_of_the_server_repeats_and_loses_nothing(restarting, open_console):
    send(restarting, "PUT", "/v1/stream/s", json=[1, 2])
    page = open_console(restarting.url).open("stream/s")
    expect(page.locator(".tail-state")).to_have_text("Live")
    restarting.kill()
    expect(page.locator("#connection")).to_contain_text("Reconnecting")
    expect(page.locator(".tail-state")).to_have_text("Reconnecting")
    restarting.start()
    send(restarting, "POST", "/v1/stream/s", json=[3])
    expect(page.locator("td.col-content")).to_have_text(["1", "2", "3"])
    expect(page.locator(".tail-state")).to_have_text("Live")
    expect(page.locator("#connection")).to_be_empty()
    send(restarting, "POST", "/v1/stream/s", json=[4])
    expect(page.locator("td.col-content")).to_have_text(["1", "2", "3", "4"])


def test_the_log_continues_after_a_restart(restarting, open_console):
    send(restarting, "PUT", "/v1/stream/s", json=["a"])
    page = open_console(restarting.url).open("log")
    expect(page.locator("td.col-content")).to_have_text(['"a"'])
    restarting.restart()
    send(restarting, "POST", "/v1/stream/s", json=["b"])
    expect(page.locator("td.col-content")).to_have_text(['"a"', '"b"'])


def test_a_command_to_a_server_that_is_away_is_not_repeated(restarting, open_console):
    send(restarting, "PUT", "/v1/stream/s", json=[1])
    page = open_console(restarting.url).open("stream/s")
    page.get_by_role("button", name="Append").click()
    page.get_by_label("JSON").fill("2")
    restarting.kill()
    page.get_by_role("dialog").get_by_role("button", name="Append").click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    restarting.start()
    expect(page.locator(".tail-state")).to_have_text("Live")
    assert send(restarting, "GET", "/v1/stream/s").json() == [1]


# Tokens


def test_nothing_is_shown_before_a_token_is_there(guarded, open_console):
    server, issuer = guarded
    page = open_console(server.url).open("streams")
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Token").fill("nonsense")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    dialog.get_by_label("Token").fill("Bearer " + issuer.token(admin=True, client_id="root"))
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    expect(page.locator(".who-name")).to_have_text("root")


def test_the_token_is_nowhere_but_in_the_memory_of_the_tab(guarded, open_console):
    server, issuer = guarded
    token = issuer.token(admin=True, client_id="root")
    console = open_console(server.url)
    urls: list[str] = []
    console.page.on("request", lambda request: urls.append(request.url))
    page = console.open("streams", token)
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert token not in stored
    assert not [url for url in urls if token in url]
    assert token not in page.content()
    page.reload()
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()


def test_a_token_that_may_only_read_is_offered_no_commands(guarded, open_console):
    server, issuer = guarded
    admin = bearer(issuer.token(admin=True))
    for path in ("mine/1", "theirs/1"):
        send(server, "PUT", f"/v1/stream/{path}", json=[1], headers=admin)
    console = open_console(server.url)
    page = console.open("streams", issuer.token(streams={"read": ["mine/**"]}))
    expect(page.get_by_role("link", name="mine/1")).to_be_visible()
    expect(page.get_by_text("theirs/1")).to_have_count(0)
    expect(page.get_by_role("button", name="Create a stream")).to_have_count(0)
    navigation = page.get_by_role("navigation", name="Pages")
    expect(navigation.get_by_role("link", name="Streams")).to_be_visible()
    expect(navigation.get_by_role("link", name="Log")).to_have_count(0)
    page.get_by_role("link", name="mine/1").click()
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    for name in ("Append", "Close", "Delete", "Fork"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    page.goto(f"{server.url}/console/#/log")
    expect(page.get_by_role("heading", name="Log is not available")).to_be_visible()


def test_a_token_may_write_some_streams_and_read_others(guarded, open_console):
    server, issuer = guarded
    admin = bearer(issuer.token(admin=True))
    for path in ("ours/1", "public/1"):
        send(server, "PUT", f"/v1/stream/{path}", json=[1], headers=admin)
    page = open_console(server.url).open("stream/ours%2F1", issuer.token(streams={"read": ["**"], "write": ["ours/*"]}))
    expect(page.get_by_role("button", name="Append")).to_be_visible()
    page.goto(f"{server.url}/console/#/stream/public%2F1")
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    expect(page.get_by_role("button", name="Append")).to_have_count(0)


def test_another_token_shows_what_it_allows(guarded, open_console):
    server, issuer = guarded
    for path in ("swap/a", "swap/b"):
        send(server, "PUT", f"/v1/stream/{path}", json=[1], headers=bearer(issuer.token(admin=True)))
    console = open_console(server.url)
    page = console.open("streams?prefix=swap/", issuer.token(streams=["swap/a"], sub="ann"))
    expect(page.locator("td.col-path a")).to_have_text(["swap/a"])
    page.get_by_role("button", name="Use another token").click()
    console.sign_in(issuer.token(streams=["swap/b"], sub="bob"))
    expect(page.locator("td.col-path a")).to_have_text(["swap/b"])
    expect(page.locator(".who-name")).to_have_text("bob")


def test_a_token_that_expires_keeps_the_page_and_a_new_one_continues_it(guarded, open_console):
    server, issuer = guarded
    admin = bearer(issuer.token(admin=True))
    send(server, "PUT", "/v1/stream/expiring", json=[1], headers=admin)
    console = open_console(server.url)
    expires = time.time() + 6
    page = console.open("stream/expiring", issuer.token(streams=["**"], exp=expires))
    expect(page.locator(".tail-state")).to_have_text("Live")
    expect(page.locator(".banner")).to_contain_text("Your token expires at")
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
    assert time.time() >= expires
    expect(page.locator("td.col-content")).to_have_text(["1"])
    page.get_by_role("button", name="Not now").click()
    expect(page.locator(".banner")).to_contain_text("What you see is kept")
    expect(page.locator(".tail-state")).to_have_text("Waiting for a token")
    send(server, "POST", "/v1/stream/expiring", json=[2], headers=admin)
    page.locator(".banner").get_by_role("button", name="Sign in").click()
    console.sign_in(issuer.token(streams=["**"], exp=time.time() + 3600))
    expect(page.locator("td.col-content")).to_have_text(["1", "2"])
    expect(page.locator(".tail-state")).to_have_text("Live")
    expect(page.locator(".banner")).to_be_hidden()


def test_a_thousand_scrapes_do_not_disturb_the_overview(node, console, api):
    page = console.open()
    expect(page.get_by_text("Head of the log")).to_be_visible()
    for _ in range(1000):
        assert api.get("/metrics").status_code == 200
    before = page.locator(".tile dd").first.text_content()
    api.put("/v1/stream/scraped", json=[1])
    eventually(lambda: page.locator(".tile dd").first.text_content() != before)
