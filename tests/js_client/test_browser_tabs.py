"""The JavaScript client in Chromium: several tabs, and what a tab costs and leaves behind."""

import httpx2

from mainstem.testing.server import ServerProcess
from tests.js_client.client_pages import LIST, start, submit, texts_of, wait_for_view


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
