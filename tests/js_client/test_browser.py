"""The JavaScript client in Chromium: offline, crashes, restarts, full storage, private mode, clocks and tabs."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from mainstem.testing.server import ServerProcess
from tests.js_client.conftest import BLANK, ROOT
from tests.support.browsers import FLAGS, WAIT_MS_MAX, find_chromium
from tests.support.issuers import write_secret
from tests.support.network_links import NetworkLink

LIST = "() => client.view('list')"


def start(page: Page, server: ServerProcess | NetworkLink, client_id: str, **options: Any) -> None:
    page.wait_for_function("window.isReady")
    page.evaluate("([url, options]) => start(url, options)", [server.url, {"clientId": client_id, **options}])


def submit(page: Page, *texts: str) -> None:
    """Submit events, and wait until they are durable in the browser."""
    page.evaluate("(texts) => Promise.all(texts.map((text) => client.submit(['p'], { text })))", list(texts))


def texts_of(server: ServerProcess) -> list[str]:
    """Return what the server has, in order."""
    events: list[Any] = httpx2.get(f"{server.url}/v1/partition/p").json()
    return [event["event"]["text"] for event in events]


def wait_for_view(page: Page, texts: list[str]) -> None:
    page.evaluate(
        """(texts) => new Promise((resolve, reject) => {
            let last;
            const timer = setTimeout(() => reject(new Error(`the view is ${JSON.stringify(last)}`)), 25_000);
            const stop = client.watch("list", (state) => {
                last = state;
                if (JSON.stringify(state) !== JSON.stringify(texts)) return;
                clearTimeout(timer);
                stop();
                resolve();
            });
        })""",
        texts,
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of its own, which keeps its port when it is started again."""
    with ServerProcess(tmp_path / "data") as server:
        server.flags = ("--port", str(server.address[1]))
        yield server


# The vectors


def test_the_vectors_hold_in_indexeddb(open_page):
    """The session and the content do not depend on the store; the store and the views run on IndexedDB."""
    page = open_page()
    found = page.evaluate("""async () => {
        const vectors = await import("/js/test/vectors.js");
        const { IndexedDbBackend } = await import("/js/src/stores/indexeddb.js");
        const load = async (name) => (await fetch(`/tests/vectors/${name}.json`)).json();
        const failures = [];
        let count = 0;
        for (const [name, run] of [["store", vectors.runStore], ["views", vectors.runView]]) {
            for (const given of await load(name)) {
                count += 1;
                const database = `vectors ${count}`;
                await run(given, () => new IndexedDbBackend(database)).catch((error) => failures.push(error.message));
            }
        }
        for (const given of await load("canonical")) {
            count += 1;
            try { vectors.runCanonical(given); } catch (error) { failures.push(error.message); }
        }
        return { count, failures };
    }""")
    assert found["failures"] == []
    assert found["count"] > 130


def test_events_in_indexeddb_are_those_in_memory_whatever_is_written(open_page):
    """IndexedDB keeps events in blocks. The same random writes, late, repeated and deleted ones, go to both."""
    page = open_page()
    found = page.evaluate("""async () => {
        const { IndexedDbBackend } = await import("/js/src/stores/indexeddb.js");
        const { MemoryBackend } = await import("/js/src/stores/memory.js");
        const { TABLES } = await import("/js/src/store.js");
        const backends = [new IndexedDbBackend("blocks"), new MemoryBackend(TABLES)];
        for (const backend of backends) await backend.open();
        const both = async (work) => {
            const run = (backend) => backend.transaction(({ events }) => work(events));
            const [seen, wanted] = await Promise.all(backends.map(run));
            const [a, b] = [seen, wanted].map((value) => JSON.stringify(value));
            if (a !== b) throw new Error(`${a} is not ${b}`);
            return wanted;
        };
        let seed = 20261118;
        const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
        const makeEvents = () => Array.from({ length: random(20) ? random(30) : 1500 }, () => {
            const committedId = 1 + random(5000);
            // Sometimes an id that belongs to another place.
            return { committedId, id: `e${random(50) ? committedId : random(5000)}`, shown: [random(3)] };
        });
        const inOrder = (rows) => rows.map(({ committedId, id }) => `${committedId} ${id}`).sort();
        for (let round = 0; round < 150; round += 1) {
            const rows = makeEvents().filter((row, index, all) =>
                all.findIndex(({ id, committedId }) => id === row.id || committedId === row.committedId) === index);
            await both(async (events) => inOrder(await events.insert(rows)));
            const held = await both((events) => events.all());
            const some = held.filter(() => !random(4)).map((row) => ({ ...row, shown: [round] }));
            const deleted = some.filter(() => !random(3)).map(({ committedId }) => committedId);
            const kept = some.filter(({ committedId }) => !deleted.includes(committedId));
            await both((events) => events.write(kept, deleted).then(() => null));
            const [after, length, limit, place] = [random(5000), random(2000), 1 + random(100), 1 + random(5000)];
            await both((events) => events.all({ after, until: after + length, limit }));
            await both((events) => events.get(place).then((event) => event ?? null));
            await both((events) => events.getById(`e${place}`).then((event) => event ?? null));
            await both((events) => events.last());
        }
        return (await both((events) => events.all())).length;
    }""")
    assert found > 500


# Offline


def test_two_browsers_edit_while_one_is_offline(server, open_page):
    ada, bob = open_page(), open_page()
    start(ada, server, "ada")
    with NetworkLink(server.address) as link:
        start(bob, link, "bob")
        submit(ada, "together")
        wait_for_view(bob, ["together"])
        link.cut()
        bob.wait_for_function("client.status.state === 'offline'")
        submit(bob, "from the train")
        submit(ada, "from the desk")
        assert bob.evaluate(LIST) == ["together", "from the train"]
        assert bob.evaluate("() => client.waiting") == 1
        link.restore()
        bob.evaluate("() => client.connectNow()")
        bob.evaluate("() => synced()")
        expected = ["together", "from the desk", "from the train"]
        for page in (ada, bob):
            wait_for_view(page, expected)
    assert texts_of(server) == expected


def test_a_reload_keeps_what_was_not_sent(server, open_page):
    server.kill()
    page = open_page()
    start(page, server, "ada", isServed=False)
    submit(page, "one", "two")
    page.reload()
    start(page, server, "ada", isServed=False)
    assert page.evaluate(LIST) == ["one", "two"]
    server.start()
    page.evaluate("() => client.connectNow()")
    page.evaluate("() => synced()")
    page.reload()
    start(page, server, "ada")
    page.evaluate("() => synced()")
    assert page.evaluate(LIST) == texts_of(server) == ["one", "two"]
    assert page.evaluate("() => client.waiting") == 0


@contextmanager
def run_chromium(browser: Browser, profile: Path) -> Iterator[tuple[BrowserContext, "subprocess.Popen[bytes]"]]:
    """Run a Chromium as a process of its own, which a test can kill, with a profile that stays."""
    program = find_chromium()
    assert program is not None
    command = [
        program,
        *FLAGS,
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        address = next(line for line in process.stderr if b"DevTools listening on" in line).split()[-1].decode()
        context = browser.browser_type.connect_over_cdp(address).contexts[0]
        context.set_default_timeout(WAIT_MS_MAX)
        yield context, process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_killed_browser_loses_nothing_and_sends_nothing_twice(server, browser, site, tmp_path):
    drafts = [f"draft {number}" for number in range(20)]
    with run_chromium(browser, tmp_path / "profile") as (context, process):
        page = context.new_page()
        page.goto(site + BLANK)
        start(page, server, "ada")
        page.evaluate("() => synced()")
        server.kill()
        submit(page, *drafts)
        process.kill()
        process.wait()
    server.start()
    with run_chromium(browser, tmp_path / "profile") as (context, process):
        page = context.new_page()
        page.goto(site + BLANK)
        start(page, server, "ada")
        page.evaluate("() => synced()")
        assert page.evaluate(LIST) == drafts
    assert texts_of(server) == drafts


def test_a_connection_that_hangs_is_noticed_when_the_network_changes(server, open_page):
    page = open_page()
    with NetworkLink(server.address) as link:
        start(page, link, "ada")
        page.evaluate("() => synced()")
        page.evaluate("() => dispatchEvent(new Event('offline'))")
        page.evaluate("() => client.submit(['p'], { text: 'one' }).then((draft) => draft.committed())")
        assert page.evaluate("() => client.status.state") == "live"  # the server has answered
        link.stall()
        submit(page, "two")
        page.evaluate("() => dispatchEvent(new Event('offline'))")
        page.wait_for_function("client.status.error?.code === 'server_silent'")
        link.cut()
        link.restore()
        page.evaluate("() => dispatchEvent(new Event('online'))")
        page.evaluate("() => synced()")
    assert texts_of(server) == ["one", "two"]


# Servers


def test_a_thousand_drafts_survive_three_kills_of_the_server_exactly_once(server, open_page):
    page = open_page()
    start(page, server, "ada")
    page.evaluate("""() => {
        window.outcomes = Promise.all(Array.from({ length: 1000 }, async (_, number) => {
            const draft = await client.submit(["p"], { text: `draft ${number}` });
            return draft.committed();
        }));
    }""")
    for waiting in (900, 600, 300):
        page.wait_for_function("(most) => client.waiting > 0 && client.waiting <= most", arg=waiting, polling=1)
        server.kill()
        server.start()
        page.evaluate("() => client.connectNow()")
    committed = page.evaluate("() => outcomes")
    assert sorted(committed) == committed
    assert len(set(committed)) == 1000
    events: list[Any] = []
    with httpx2.Client() as http:
        offset = "-1"
        while True:
            reply = http.get(f"{server.url}/v1/partition/p", params={"offset": offset})
            events += reply.json()
            offset = reply.headers["stream-next-offset"]
            if "stream-up-to-date" in reply.headers:
                break
    assert [event["event"]["text"] for event in events] == [f"draft {number}" for number in range(1000)]
    assert [event["committed_id"] for event in events] == committed


def test_ten_thousand_events_arrive_in_a_view(node, open_page):
    page = open_page()
    start(page, node, "writer", partitions=["many"], inMemory=True)
    page.evaluate("""async () => {
        for (let first = 0; first < 10_000; first += 1_000) {
            const numbers = Array.from({ length: 1_000 }, (_, index) => first + index);
            await Promise.all(numbers.map((number) => client.submit(["many"], { text: `event ${number}` })));
        }
        await synced();
    }""")
    other = open_page()
    start(other, node, "reader", partitions=["many"])
    other.evaluate("() => synced()")
    assert other.evaluate(LIST) == [f"event {number}" for number in range(10_000)]
    assert other.evaluate("() => client.cursor") == 10_000


def test_a_rejected_draft_leaves_the_view_and_stays_until_it_is_dismissed(tmp_path, open_page):
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["type", "text"]}
    (schemas / "note.json").write_text(json.dumps(schema))
    flags = ("--sync-validation", "model", "--sync-schemas", str(schemas))
    with ServerProcess(tmp_path / "data", *flags) as server:
        page = open_page()
        start(page, server, "ada")
        seen = page.evaluate("""async () => {
            const good = await client.submit(["p"], { type: "note", text: "milk" });
            const bad = await client.submit(["p"], { type: "note", text: 5 });
            const error = await bad.committed().catch((error) => error);
            await good.committed();
            const rejections = await client.rejections();
            return {
                code: error.code, field: error.details.errors[0].field, view: await client.view("list"),
                rejected: rejections.map(({ event }) => event.text), dismissed: await client.dismiss(bad.id),
                left: (await client.rejections()).length,
            };
        }""")
    assert seen == {
        "code": "draft_rejected",
        "field": "event.text",
        "view": ["milk"],
        "rejected": [5],
        "dismissed": 1,
        "left": 0,
    }


# Storage


def test_a_full_storage_refuses_drafts_and_accepts_them_later(server, open_page, site):
    page = open_page()
    session = page.context.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": site, "quotaSize": 400_000})
    start(page, server, "ada")
    submit(page, "before")
    large = "() => client.submit(['p'], { text: 'x'.repeat(500_000) }).then(({ id }) => id, ({ code }) => code)"
    assert page.evaluate(large) == "client_store_full"
    session.send("Storage.overrideQuotaForOrigin", {"origin": site})
    assert page.evaluate(large) != "client_store_full"
    page.evaluate("() => synced()")
    assert texts_of(server) == page.evaluate(LIST) == ["before", "x" * 500_000]


@pytest.mark.parametrize(
    "script",
    [
        "Object.defineProperty(window, 'indexedDB', { value: undefined });",
        "IDBFactory.prototype.open = () => { throw new DOMException('denied', 'SecurityError'); };",
        "Object.defineProperty(navigator, 'locks', { value: undefined });",
    ],
    ids=["no-indexeddb", "indexeddb-refused", "no-locks"],
)
def test_private_mode_works_in_memory_and_says_so(server, open_page, script):
    page = open_page(scripts=(script,))
    start(page, server, "ada")
    submit(page, "in memory")
    page.evaluate("() => synced()")
    assert page.evaluate(LIST) == texts_of(server) == ["in memory"]
    assert page.evaluate("() => client.isDurable") is False
    assert page.evaluate("() => changes.filter(({ type }) => type === 'reported').map(({ error }) => error.code)") == [
        "store_not_durable"
    ]


@pytest.mark.parametrize("years", [-20, 20])
def test_a_wrong_clock_changes_nothing(server, open_page, years):
    script = f"{{ const now = Date.now; Date.now = () => now() + {years} * 31_557_600_000; }}"
    wrong, right = open_page(scripts=(script,)), open_page()
    start(wrong, server, "ada")
    start(right, server, "bob")
    submit(wrong, "one")
    wait_for_view(right, ["one"])
    submit(right, "two")
    wait_for_view(wrong, ["one", "two"])


# Tabs


def sessions_of(server: ServerProcess) -> int:
    return len(httpx2.get(f"{server.url}/v1/sessions").json()["sessions"])


def test_tabs_share_one_store_and_one_connection(server, open_page):
    first = open_page()
    start(first, server, "ada")
    first.evaluate("() => synced()")
    second = open_page(first.context)
    start(second, server, "ada")
    second.evaluate("() => synced()")
    assert sessions_of(server) == 1
    submit(second, "from a follower")
    wait_for_view(first, ["from a follower"])
    committed = second.evaluate("async () => (await client.submit(['p'], { text: 'again' })).committed()")
    assert committed == 2
    submit(first, "from the leader")
    wait_for_view(second, ["from a follower", "again", "from the leader"])
    second.evaluate("() => client.addPartition('q')")
    first.wait_for_function("client.partitions.includes('q')")
    for page in (first, second):
        page.evaluate("() => synced()")
    first.close()  # without close(): the browser passes the lock on
    submit(second, "alone")
    second.evaluate("() => synced()")
    assert second.evaluate("() => client.partitions") == ["p", "q"]
    assert texts_of(server) == ["from a follower", "again", "from the leader", "alone"]
    assert second.evaluate(LIST) == texts_of(server)
    second.wait_for_function("client.status.state === 'live'")
    assert sessions_of(server) == 1


def test_an_idle_tab_has_one_timer_and_a_closed_client_none(server, open_page):
    script = """
        window.timers = new Map();
        for (const name of ["setTimeout", "setInterval"]) {
            const original = window[name];
            window[name] = (work, delay, ...rest) => {
                const run = (...given) => { if (name === "setTimeout") timers.delete(id); work(...given); };
                const id = original(run, delay, ...rest);
                timers.set(id, [name, delay]);
                return id;
            };
        }
        for (const name of ["clearTimeout", "clearInterval"]) {
            const original = window[name];
            window[name] = (id) => { timers.delete(id); original(id); };
        }
    """
    page = open_page(scripts=(script,))
    start(page, server, "ada")
    submit(page, "one")
    page.evaluate("() => client.synced()")
    assert page.evaluate("() => [...timers.values()]") == [["setTimeout", 20_000]]
    page.evaluate("() => client.close()")
    assert page.evaluate("() => timers.size") == 0
    assert page.evaluate("async () => (await navigator.locks.query()).held.length") == 0
    code = page.evaluate("() => client.submit(['p'], {}).catch(({ code }) => code)")
    assert code == "client_closed"


# Tokens


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


def test_the_client_is_small(node):
    """What a page downloads. The store in memory is a file of its own, which few pages need."""
    with httpx2.Client(follow_redirects=True, headers={"accept-encoding": "gzip"}) as http:
        entry = http.get(f"{node.url}/client/mainstem.js", follow_redirects=False)
        assert (entry.status_code, entry.headers["cache-control"]) == (307, "no-cache")
        with http.stream("GET", f"{node.url}/client/mainstem.js") as reply:
            size = sum(map(len, reply.iter_raw()))
        assert reply.headers["content-encoding"] == "gzip"
        assert "immutable" in reply.headers["cache-control"]
        assert size < 14_200
        assert http.get(f"{node.url}/client/nonsense/mainstem.js").status_code == 404
        assert http.post(f"{node.url}/client/mainstem.js").status_code == 405
    assert (ROOT / "src/mainstem/browser_client/memory.js").exists()


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


def test_closing_does_not_wait_for_a_token_that_never_comes(node, open_page):
    page = open_page()
    page.wait_for_function("window.isReady")
    assert (
        page.evaluate(
            """async (url) => {
            const { OfflineClient } = await import(`${url}/client/mainstem.js`);
            const token = () => new Promise(() => {});
            const client = await new OfflineClient(url, { clientId: "patient", token, partitions: ["p"] }).open();
            await client.submit(["p"], { text: "kept" });
            await client.close();
            return client.status.state;
        }""",
            node.url,
        )
        == "offline"
    )


def test_clients_that_are_opened_and_closed_at_once_leave_nothing_behind(node, open_page):
    """Closing may come at any moment of connecting."""
    page = open_page()
    page.wait_for_function("window.isReady")
    assert (
        page.evaluate(
            """async (url) => {
            const { OfflineClient } = await import(`${url}/client/mainstem.js`);
            for (let wait = 0; wait < 30; wait += 1) {
                const client = await new OfflineClient(url, { clientId: "hasty", partitions: ["p"] }).open();
                for (let turn = 0; turn < wait; turn += 1) await new Promise((resolve) => setTimeout(resolve));
                await client.close();
            }
            return (await navigator.locks.query()).held.length;
        }""",
            node.url,
        )
        == 0
    )
