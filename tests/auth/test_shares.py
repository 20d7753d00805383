"""What one client may hold at once, without affecting others."""

import asyncio
import re
from contextlib import ExitStack

import pytest

from mainstem import limits
from tests.auth.endpoints import ROOT, SUBSCRIPTIONS, make_stream
from tests.support.event_streams import open_events
from tests.support.issuers import bearer
from tests.support.webhook_receivers import DONE

LIVE = {
    "sse": (ROOT + "a?offset=-1&live=sse", 1),
    "a stream set": ("/v1/stream-set?stream=a&stream=b&live=sse", 2),
    "a partition": ("/v1/partition/p?offset=-1&live=sse", 1),
    "the log": ("/v1/log?live=sse", 1),
}


@pytest.fixture
def connect_as(secret_file, start_thread, connect_to):
    """Connect clients of one server under their own names; each may have two live readers and two subscriptions."""
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, max_live_readers_per_client=2, max_subscriptions_per_client=2)

    def connect(client_id):
        client = connect_to(server)
        client.headers.update(bearer(issuer.token(client_id=client_id, admin=True)))
        return client

    for path in ("a", "b"):
        make_stream(connect("maker"), path)
    return connect


@pytest.mark.parametrize("held", LIVE)
@pytest.mark.timeout(30)  # a reader that should be refused would wait for a minute
def test_a_client_has_a_limited_number_of_live_readers_of_all_kinds_together(connect_as, held):
    eager, calm = connect_as("eager"), connect_as("calm")
    url, count = LIVE[held]
    tail = calm.head(ROOT + "a").headers["stream-next-offset"]
    with ExitStack() as stack:
        readers = [stack.enter_context(open_events(eager, url)) for _ in range(2 // count)]
        assert all(next(events) for events in readers)
        for live in (
            *(url for url, _ in LIVE.values()),
            f"{ROOT}a?offset={tail}&live=long-poll",
            "/v1/partition/p?offset=-1&live=long-poll",
        ):
            refused = connect_as("eager").get(live)
            assert (refused.status_code, refused.json()["code"]) == (429, "share_exceeded"), live
            assert refused.json()["retryable"] is True
            assert refused.json()["limit"] == 2
            assert refused.headers["retry-after"] == "1"
        assert connect_as("eager").get(ROOT + "a").status_code == 200  # a read that does not wait is not limited
        with open_events(calm, url) as events:
            assert next(events)


@pytest.mark.timeout(30)
def test_a_reader_that_disconnects_frees_its_share(connect_as):
    eager = connect_as("eager")
    for _ in range(3):
        status = 429
        while status == 429:  # the server has not yet noticed that the previous one has left
            with eager.stream("GET", LIVE["a stream set"][0]) as response:
                status = response.status_code
        assert status == 200


def subscribe(client, name, **config):
    made = {"type": "pull-wake", "wake_stream": "wakes", "streams": ["a"], **config}
    return client.put(SUBSCRIPTIONS + name, json=made)


def test_a_client_owns_a_limited_number_of_subscriptions(connect_as):
    eager, calm = connect_as("eager"), connect_as("calm")
    assert [subscribe(eager, name).status_code for name in ("one", "two")] == [201, 201]
    refused = subscribe(eager, "three")
    assert (refused.status_code, refused.json()["code"]) == (429, "share_exceeded")
    assert subscribe(eager, "two").status_code == 200  # it exists already, so nothing is added
    assert subscribe(calm, "three").status_code == 201
    assert subscribe(calm, "one").status_code == 200
    assert eager.delete(SUBSCRIPTIONS + "one").status_code == 204
    assert subscribe(eager, "four").status_code == 201
    assert subscribe(eager, "five").status_code == 429


def test_without_tokens_clients_are_counted_by_address(start_thread, connect_to):
    client = connect_to(start_thread(store="memory", max_live_readers_per_client=1, max_subscriptions_per_client=1))
    make_stream(client, "a")
    with open_events(client, ROOT + "a?offset=-1&live=sse") as events:
        next(events)
        assert client.get(ROOT + "a?offset=-1&live=sse").json()["code"] == "share_exceeded"
    assert [subscribe(client, name).status_code for name in ("one", "two")] == [201, 429]


async def test_many_requests_at_once_can_use_the_whole_share(start_thread):
    """A subscription whose request has not ended yet must not be counted twice."""
    share, rounds = 64, 20
    server = start_thread(max_subscriptions_per_client=share)
    body = b'{"type":"pull-wake","wake_stream":"w","pattern":"a"}'

    async def subscribe_and_delete(number):
        reader, writer = await asyncio.open_connection(*server.address)
        path = f"{SUBSCRIPTIONS}s{number}"
        for _ in range(rounds):
            statuses.append(await send_request(reader, writer, "PUT", path, body))
            await everybody.wait()
            await send_request(reader, writer, "DELETE", path)
            await everybody.wait()
        writer.close()

    statuses: list[int] = []
    everybody = asyncio.Barrier(share)
    await asyncio.gather(*map(subscribe_and_delete, range(share)))
    assert statuses == [201] * share * rounds


async def send_request(reader, writer, method, path, body=b""):
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    reply = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", reply)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(reply.split()[1])


def test_a_description_has_a_length_limit(connect_as):
    client = connect_as("ada")
    assert subscribe(client, "long", description="é" * 512).status_code == 201
    refused = subscribe(client, "longer", description="é" * 512 + "x")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def test_an_owner_whose_receivers_are_slow_delays_nobody_else(
    secret_file, start_thread, connect_to, receive, monkeypatch
):
    monkeypatch.setattr(limits, "WEBHOOKS_PER_OWNER_AT_ONCE", 1)
    file, issuer = secret_file
    server = start_thread(jwt_secret_file=file, allow_local_webhooks=True)
    clients = {name: connect_to(server) for name in ("eager", "calm")}
    for name, client in clients.items():
        client.headers.update(bearer(issuer.token(client_id=name, admin=True)))
    slow, quick = receive(), receive()
    slow.hold(DONE)
    for owner, name, url in (("eager", "1", slow.url), ("eager", "2", slow.url), ("calm", "3", quick.url)):
        config = {"type": "webhook", "webhook": {"url": url}, "pattern": "a"}
        assert clients[owner].put(SUBSCRIPTIONS + name, json=config).status_code == 201
    make_stream(clients["calm"], "a")
    quick.next()
    first = slow.next()
    make_stream(clients["calm"], "b")
    assert slow.calls.empty()
    slow.released.set()
    assert {first.wake["subscription_id"], slow.next().wake["subscription_id"]} == {"1", "2"}
