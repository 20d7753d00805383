"""Two real nodes on one database: what one node writes, the other returns, in every way of reading."""

import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mainstem.testing.server import ServerProcess
from tests.support.command_line import COMMAND
from tests.support.subscribers import Subscriber
from tests.support.sync_peers import Peer, draft, ids_of
from tests.support.waits import eventually
from tests.support.webhook_receivers import DONE, Receiver

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
PATH = "/v1/stream/a"


def find_leader(nodes: list[ServerProcess]) -> ServerProcess:
    """Return the node that runs the background work, according to its log."""
    return eventually(
        lambda: next((node for node in nodes if node.running and "is now the leader" in node.stderr), None)
    )


@pytest.fixture
def pair(start_nodes, browse):
    one, two = start_nodes(2)
    return browse(one), browse(two)


# Jobs


def test_both_nodes_know_the_last_round_of_a_job_at_once(pair):
    one, two = pair
    told = {"job": "audit", "name": "a", "started_at": "2026-05-01T00:00:00Z", "duration_s": 1.5}
    for number in range(10):
        writer, reader = (one, two) if number % 2 else (two, one)
        assert writer.post("/v1/jobs", json=told | {"round": number, "rows": number}).status_code == 204
        assert [found["round"] for found in reader.get("/v1/jobs").json()["jobs"]] == [number]
    found = one.get("/v1/stream/_mainstem/jobs").json()
    assert [round_["round"] for round_ in found] == list(range(10))


# Streams


def test_the_other_node_returns_at_once_what_one_node_has_acknowledged(pair):
    """An offset of one node is valid on the other at the same moment: no 404, no offset beyond the end."""
    one, two = pair
    assert one.put(PATH, headers=TEXT).status_code == 201
    assert two.head(PATH).status_code == 200
    offset = "-1"
    for number in range(60):
        writer, reader = (one, two) if number % 2 else (two, one)
        told = writer.post(PATH, headers=TEXT, content=b"%d;" % number).headers["stream-next-offset"]
        page = reader.get(PATH, params={"offset": offset})
        assert page.status_code == 200
        assert page.content == b"%d;" % number
        assert page.headers["stream-next-offset"] == told
        assert reader.get(PATH, params={"offset": told}).headers["stream-up-to-date"] == "true"
        offset = told
    assert one.delete(PATH).status_code == 204
    assert two.get(PATH).status_code == 404
    assert two.put(PATH, headers=TEXT, content=b"next life").status_code == 201
    assert one.get(PATH).content == b"next life"


def test_a_producer_may_retry_on_another_node(pair):
    one, two = pair
    one.put(PATH, headers=TEXT)
    for number in range(20):
        producer = TEXT | {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(number)}
        assert one.post(PATH, headers=producer, content=b"x").status_code == 200
        assert two.post(PATH, headers=producer, content=b"x").status_code == 204
        one, two = two, one
    assert one.get(PATH).content == b"x" * 20


def test_a_long_poll_is_woken_by_the_other_node(pair):
    one, two = pair
    offset = one.put(PATH, headers=TEXT).headers["stream-next-offset"]
    for number in range(5):
        timer = threading.Timer(0.1, lambda n=number: one.post(PATH, headers=TEXT, content=b"%d" % n))
        timer.start()
        began = time.monotonic()
        reply = two.get(PATH, params={"offset": offset, "live": "long-poll"})
        timer.join()
        assert reply.status_code == 200
        assert reply.content == b"%d" % number
        assert time.monotonic() - began < 5  # the poll itself would wait for 30 s
        offset = reply.headers["stream-next-offset"]


def read_events(client: httpx2.Client, until: bytes) -> bytes:
    """Return the data of an SSE response up to and including a mark."""
    data = b""
    with client.stream("GET", PATH, params={"offset": "-1", "live": "sse"}) as response:
        for line in response.iter_lines():
            if line.startswith("data:") and not line.startswith('data:{"streamNextOffset"'):
                data += line.removeprefix("data:").encode()
                if data.endswith(until):
                    return data
    raise AssertionError("the response ended before the mark")


def test_sse_readers_of_both_nodes_get_everything_once_and_in_the_same_order(pair, browse, start_nodes):
    one, two = pair
    one.put(PATH, headers=TEXT)
    heard: dict[int, bytes] = {}

    def listen(number: int, client: httpx2.Client) -> None:
        with httpx2.Client(base_url=client.base_url, timeout=30, trust_env=False) as own:
            heard[number] = read_events(own, b"END")

    listeners = [threading.Thread(target=listen, args=(n, client)) for n, client in enumerate([one, two, one, two])]
    for listener in listeners:
        listener.start()

    def write(client: httpx2.Client, name: str) -> None:
        with httpx2.Client(base_url=client.base_url, timeout=30, trust_env=False) as own:
            for number in range(100):
                assert own.post(PATH, headers=TEXT, content=f"{name}{number};".encode()).status_code == 204

    writers = [threading.Thread(target=write, args=(client, name)) for client, name in ((one, "a"), (two, "b"))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    one.post(PATH, headers=TEXT, content=b"END")
    for listener in listeners:
        listener.join(30)
    whole = one.get(PATH).content
    assert set(heard.values()) == {whole}
    for name in "ab":
        mine = [part for part in whole.decode().removesuffix("END").split(";") if part.startswith(name)]
        assert mine == [f"{name}{number}" for number in range(100)]


@pytest.mark.slow
def test_a_reader_on_one_node_keeps_a_stream_from_expiring_on_the_other(start_nodes, browse):
    nodes = start_nodes(2)
    leader = find_leader(nodes)
    (other,) = [node for node in nodes if node is not leader]
    one, two = browse(leader), browse(other)
    assert one.put(PATH, headers=TEXT | {"stream-ttl": "2"}, content=b"x").status_code == 201
    with httpx2.Client(base_url=other.url, timeout=30, trust_env=False) as own:
        reader = threading.Thread(
            target=own.get, args=(PATH,), kwargs={"params": {"offset": "now", "live": "long-poll"}}
        )
        reader.start()
        deadline_s = time.monotonic() + 6  # three times its TTL
        while time.monotonic() < deadline_s:
            assert one.get("/v1/streams").json()["streams"]
            time.sleep(0.25)
        assert one.post(PATH, headers=TEXT, content=b"y").status_code == 204
        reader.join(10)
    eventually(lambda: two.head(PATH).status_code == 404 and one.head(PATH).status_code == 404)


# Sync


async def follow(node: ServerProcess, *partitions: str, client_id: str | None = None) -> Peer:
    peer = await Peer.dial(node.address)
    await peer.connect(client_id)
    await peer.subscribe(*partitions)
    return peer


async def test_events_of_both_nodes_reach_every_subscriber_once_and_in_order(start_nodes):
    one, two = start_nodes(2)
    first, second = await follow(one, "room", client_id="first"), await follow(two, "room", client_id="second")
    watchers = [await follow(node, "room") for node in (one, two)]
    ids: list[int] = []
    for number in range(40):
        for peer in (first, second):
            await peer.send("submit_events", {"events": [draft("room", {"n": number})]}, msg_id=str(number))
    for peer, others in ((first, 40), (second, 40)):
        own: list[int] = []
        broadcasts: list[Any] = []
        while len(own) < 40 or len(broadcasts) < others:
            message = await peer.next()
            if message["type"] == "submit_events_result":
                own += [result["committed_id"] for result in message["payload"]["results"]]
            else:
                broadcasts.append(message["payload"])
        assert await peer.flush() == []
        assert ids_of(broadcasts) == sorted(ids_of(broadcasts))
        assert not set(own) & set(ids_of(broadcasts))  # a connection's own events never come back
        ids = sorted([*own, *ids_of(broadcasts)])
    for watcher in watchers:
        assert ids_of(await watcher.next_broadcasts(80)) == ids
        assert await watcher.flush() == []
    for peer in (first, second, *watchers):
        await peer.hang_up()


async def test_a_client_that_moves_to_another_node_continues_where_it_was(start_nodes):
    nodes = start_nodes(2)
    writer = await Peer.dial(nodes[0].address)
    await writer.connect("writer")
    since, seen = 0, []
    for turn in range(12):
        committed = await writer.commit(*[draft("room", {"turn": turn, "n": n}) for n in range(3)])
        reader = await Peer.dial(nodes[turn % 2].address)
        welcome = await reader.connect("reader")
        assert welcome["server_last_committed_id"] >= committed[-1]
        page = await reader.sync(["room"], since, subscription_partitions=["room"])
        assert page["has_more"] is False
        seen += ids_of(page["events"])
        since = page["next_since_committed_id"]
        assert since == committed[-1]
        assert await reader.flush() == []
        await reader.hang_up()
    assert seen == sorted(set(seen))
    assert len(seen) == 36
    await writer.hang_up()


async def test_an_event_that_is_sent_to_both_nodes_is_committed_once(start_nodes):
    one, two = start_nodes(2)
    peers = []
    for node in (one, two):
        peer = await Peer.dial(node.address)
        await peer.connect("client")
        peers.append(peer)
    events = [draft("room", {"n": n}) for n in range(50)]
    for event in events:
        for peer in peers:
            await peer.send("submit_events", {"events": [event]})
    outcomes = [[(await peer.next_of("submit_events_result"))["results"][0] for _ in events] for peer in peers]
    assert [r["committed_id"] for r in outcomes[0]] == [r["committed_id"] for r in outcomes[1]]
    assert len({r["committed_id"] for r in outcomes[0]}) == 50
    for peer in peers:
        await peer.hang_up()


def test_the_leader_prunes_what_another_node_was_asked_to_prune(start_nodes, browse, postgres, postgres_url):
    nodes = start_nodes(2)
    leader = find_leader(nodes)
    (other,) = [node for node in nodes if node is not leader]
    client = browse(other)

    async def fill() -> int:
        peer = await Peer.dial(other.address)
        await peer.connect("writer")
        ids = await peer.commit_many("room", 30)
        await peer.hang_up()
        return ids[-1]

    from mainstem.testing.loops import run

    last = run(fill())
    assert client.post("/v1/prune", json={"floors": {"room": last}}).status_code == 202
    database = postgres_url.rpartition("/")[2]
    eventually(lambda: postgres.run("SELECT count(*) FROM mainstem.records WHERE kind = 6", database) == "0")
    assert postgres.run("SELECT count(*) FROM mainstem.tags", database) == "0"


# Subscriptions


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver(lambda call: DONE)
    yield receiver
    receiver.close()


def test_a_webhook_is_called_once_whichever_node_the_stream_is_written_on(start_nodes, browse, receiver):
    one, two = (browse(node) for node in start_nodes(2, "--allow-local-webhooks"))
    Subscriber(one, "hook").listen(receiver.url, pattern="in/*")
    for number, client in enumerate((one, two, one, two)):
        path = f"in/{number}"
        client.put(f"/v1/stream/{path}", headers=TEXT, content=b"x")
        call = receiver.next()
        assert list(call.streams) == [path]
        eventually(lambda n=number: Subscriber(two, "hook").describe()["generation"] == n + 1)
    time.sleep(1.0)  # a second node would have called it by now
    assert receiver.calls.empty()


def test_an_operator_may_use_any_node_to_pause_and_redeliver(start_nodes, browse, receiver):
    nodes = start_nodes(2, "--allow-local-webhooks")
    leader = find_leader(nodes)
    client = browse(next(node for node in nodes if node is not leader))
    paused, other = Subscriber(client, "paused"), Subscriber(client, "other")
    witness = Receiver(lambda call: DONE)
    try:
        paused.listen(receiver.url, pattern="in/*")
        other.listen(witness.url, pattern="in/*")
        paused.control("pause")
        tail = client.put("/v1/stream/in/1", headers=TEXT, content=b"data").headers["stream-next-offset"]
        witness.next()
        assert receiver.calls.empty()
        assert Subscriber(browse(leader), "paused").inspect()["status"] == "paused"
        paused.control("resume")
        assert receiver.next().streams["in/1"]["tail_offset"] == tail
        eventually(lambda: paused.acked("in/1") == tail)
        paused.control("redeliver", stream="in/1", offset="-1")
        assert receiver.next().wake["generation"] == 2
        receiver.answer = lambda call: (500, b"")
        paused.control("redeliver", stream="in/1", offset="-1")
        receiver.next()
        eventually(lambda: paused.inspect()["last_error"] is not None)
        receiver.answer = lambda call: DONE
        eventually(lambda: paused.inspect()["last_error"] is None)  # the leader retries
    finally:
        witness.close()


@pytest.mark.slow
def test_another_node_takes_over_when_the_node_that_calls_webhooks_dies(start_nodes, browse, receiver):
    nodes = start_nodes(2, "--allow-local-webhooks")
    leader = find_leader(nodes)
    (other,) = [node for node in nodes if node is not leader]
    client = browse(other)
    held = threading.Event()
    receiver.answer = lambda call: (held.wait(20), DONE)[1]  # the first call is still waiting when its caller is killed
    Subscriber(client, "hook").listen(receiver.url, pattern="in/*", lease_ttl_ms=1_500)
    client.put("/v1/stream/in/1", headers=TEXT, content=b"x")
    first = receiver.next()
    leader.kill()
    receiver.answer = lambda call: DONE
    second = receiver.next()  # the lease has expired, and the other node begins a new wake, with the next generation
    assert list(second.streams) == ["in/1"]
    assert second.wake["generation"] > first.wake["generation"]
    held.set()
    assert "is now the leader" in other.stderr
    client.put("/v1/stream/in/2", headers=TEXT, content=b"x")
    assert "in/2" in receiver.next().streams


def test_workers_may_claim_and_acknowledge_on_any_node(start_nodes, browse):
    nodes = start_nodes(2)
    find_leader(nodes)
    clients = [browse(node) for node in nodes]
    clients[0].put("/v1/stream/wakes", headers=JSON)
    Subscriber(clients[0], "pull").pull("wakes", pattern="in/*")
    for turn in range(6):
        at, other = clients[turn % 2], clients[1 - turn % 2]
        at.put(f"/v1/stream/in/{turn}", headers=TEXT, content=b"x")
        wake = Subscriber(other, "pull").claimed()
        assert [stream["path"] for stream in wake["streams"]] == [f"in/{turn}"]
        assert Subscriber(at, "pull").claim("bob").status_code == 409
        assert Subscriber(at, "pull").finish(wake) is False
    # Every wake was written once, by the leader.
    messages = eventually(lambda: clients[1].get("/v1/stream/wakes").json())
    assert [message["type"] for message in messages] == ["wake"] * len(messages)


def test_both_nodes_use_the_keys_that_one_node_has_rotated(pair):
    one, two = pair
    keys = one.get("/v1/stream/__ds/jwks.json").json()
    assert two.get("/v1/stream/__ds/jwks.json").json() == keys
    kid = two.post("/v1/stream/__ds/keys/rotate").json()["kid"]
    eventually(lambda: kid in {key["kid"] for key in one.get("/v1/stream/__ds/jwks.json").json()["keys"]})


# The whole log


def test_the_log_is_the_same_on_both_nodes(pair):
    one, two = pair
    one.put(PATH, headers=TEXT)
    for number, client in enumerate((one, two) * 5):
        client.post(PATH, headers=TEXT, content=b"%d" % number)
    eventually(lambda: one.get("/v1/log/head").json()["head"] == two.get("/v1/log/head").json()["head"] == 11)
    logs = [client.get("/v1/log", headers={"accept": "application/x-ndjson"}) for client in (one, two)]
    assert [log.status_code for log in logs] == [200, 200]
    assert logs[0].content == logs[1].content
    assert len(logs[0].content.splitlines()) == 10


def test_the_command_line_can_check_the_database(pair, postgres, postgres_url):
    pair[0].put(PATH, headers=TEXT, content=b"x")
    command = [*COMMAND, "check", "--store", postgres_url]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    postgres.run("UPDATE mainstem.head SET committed_id = 0", postgres_url.rpartition("/")[2])
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode != 0
    assert "beyond the head" in found.stdout + found.stderr
