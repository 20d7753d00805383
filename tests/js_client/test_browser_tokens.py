"""Tokens, signed URLs, cookies and origins, as pages in Chromium use them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainstem.testing.server import ServerProcess
from tests.js_client.client_pages import LIST, start, submit
from tests.support.issuers import write_secret


@pytest.fixture
def guarded(tmp_path: Path, site: str) -> Iterator[tuple[ServerProcess, Any]]:
    """A server with tokens that pages of the site may use, and who issues them."""
    issuer = write_secret(tmp_path / "secret")
    flags = ("--jwt-secret-file", str(tmp_path / "secret"), "--allow-origin", site)
    with ServerProcess(tmp_path / "data", *flags) as server:
        yield server, issuer


def test_a_function_gives_each_connection_its_token(guarded, open_page):
    server, issuer = guarded
    good = issuer.token(client_id="ada", allowed_partitions=["p"])
    page = open_page()
    page.wait_for_function("window.isReady")
    page.evaluate(
        """async ([url, token]) => {
            const { OfflineClient } = await import(`${url}/client/mainstem.js`);
            let calls = 0;
            const tokens = ["nonsense", token];
            window.client = await new OfflineClient(url, {
                clientId: "ada", partitions: ["p"], token: async () => tokens[calls++] ?? token,
            }).open();
            client.registerView("list", (state, { event }) => [...state, event.text], []);
        }""",
        [server.url, good],
    )
    page.wait_for_function("client.status.error?.code === 'auth_failed'")
    submit(page, "with a token")
    page.evaluate("() => client.connectNow()")
    page.wait_for_function("client.status.state === 'live' && client.waiting === 0")
    assert page.evaluate(LIST) == ["with a token"]


def test_a_page_of_another_origin_is_refused_unless_it_is_listed(tmp_path, open_page):
    issuer = write_secret(tmp_path / "secret")
    token = issuer.token(client_id="ada", allowed_partitions=["p"])
    with ServerProcess(tmp_path / "data", "--jwt-secret-file", str(tmp_path / "secret")) as server:
        page = open_page()
        start(page, server, "ada", token=token)
        page.wait_for_function("client.status.error?.code === 'connection_lost'")
        assert (
            page.evaluate(
                "async ([url, token]) => fetch(`${url}/v1/whoami`, { headers: { authorization: `Bearer ${token}` } })"
                ".then(() => 'read', () => 'refused')",
                [server.url, token],
            )
            == "refused"
        )


FOLLOW = """(url) => new Promise((resolve, reject) => {
    const source = new EventSource(url, { withCredentials: true });
    source.onerror = () => { source.close(); reject(new Error("refused")); };
    source.addEventListener("data", ({ data }) => { source.close(); resolve(data); });
})"""


def test_an_event_source_reads_a_signed_url(guarded, open_page):
    server, issuer = guarded
    token = issuer.token(admin=True)
    headers = {"authorization": f"Bearer {token}"}
    httpx2.put(f"{server.url}/v1/stream/chat/1", headers={**headers, "content-type": "text/plain"}, content=b"hello")
    reply = httpx2.post(f"{server.url}/v1/signed-urls", headers=headers, json={"stream": "chat/1"})
    assert reply.status_code == 201
    page = open_page()
    assert page.evaluate(FOLLOW, reply.json()["url"] + "&offset=-1&live=sse") == "hello"
    other = reply.json()["url"].replace("chat/1", "chat/2")
    with pytest.raises(Exception, match="refused"):
        page.evaluate(FOLLOW, other + "&offset=-1&live=sse")


def test_an_event_source_reads_with_the_cookie_of_the_same_site(guarded, open_page):
    server, issuer = guarded
    token = issuer.token(client_id="ada", streams=["chat/**"])
    headers = {"authorization": f"Bearer {token}"}
    httpx2.put(f"{server.url}/v1/stream/chat/1", headers={**headers, "content-type": "text/plain"}, content=b"hello")
    page = open_page()
    seen = page.evaluate(
        """async ([url, token]) => {
            const set = await fetch(`${url}/v1/cookie`, {
                method: "PUT", credentials: "include", headers: { authorization: `Bearer ${token}` },
            });
            const append = await fetch(`${url}/v1/stream/chat/1`, {
                method: "POST", credentials: "include", body: " again",
                headers: { "content-type": "text/plain" },
            });
            return [set.status, append.status, document.cookie];
        }""",
        [server.url, token],
    )
    assert seen == [204, 204, ""]  # scripts do not see the cookie
    assert page.evaluate(FOLLOW, f"{server.url}/v1/stream/chat/1?offset=-1&live=sse").startswith("hello")


def test_a_token_function_may_fail_with_anything(node, open_page):
    page = open_page()
    page.wait_for_function("window.isReady")
    seen = page.evaluate(
        """async (url) => {
            const { OfflineClient } = await import(`${url}/client/mainstem.js`);
            let fails = true;
            const token = () => (fails ? Promise.reject(() => "not even an error") : "");
            const client = await new OfflineClient(url, { clientId: "unlucky", token, partitions: ["p"] }).open();
            await client.submit(["p"], { text: "kept" });
            const error = await new Promise((resolve) =>
                client.onChange(({ status }) => status?.error && resolve(status.error)),
            );
            fails = false;
            client.connectNow();
            await client.synced({ signal: AbortSignal.timeout(20_000) });
            await client.close();
            return error.code;
        }""",
        node.url,
    )
    assert seen == "connection_lost"
