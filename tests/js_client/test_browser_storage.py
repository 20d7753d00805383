"""The JavaScript client in Chromium: IndexedDB, a full disk, and private modes without it."""

import pytest

from tests.js_client.client_pages import LIST, start, submit, texts_of


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


def test_a_full_storage_does_not_keep_a_client_from_closing(server, open_page, site):
    """Closing stores the states of views, which are only a cache."""
    page = open_page()
    session = page.context.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": site, "quotaSize": 400_000})
    start(page, server, "ada")
    page.evaluate("""async () => {
        client.registerView("large", () => "x".repeat(500_000), "");
        await client.submit(["p"], { text: "one" });
        await synced();
        client.connectNow();
    }""")
    page.reload()
    start(page, server, "ada")
    page.evaluate("""async () => {
        client.registerView("large", () => "x".repeat(500_000), "");
        await synced();
    }""")
    assert page.evaluate("() => client.cursor") == 1  # so that there is a state to store
    assert page.evaluate("() => client.close().then(() => client.status.state)") == "offline"
