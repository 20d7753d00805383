"""A server that is killed repeatedly under load keeps all its promises."""

import random
from collections import defaultdict

import pytest

from mainstem.log.store import SqliteStore
from mainstem.testing.loops import run
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from mainstem.testing.store_contract import read_whole_log
from tests.support.http_requests import JSON, TEXT, ask, read_stream
from tests.support.load_writers import LOAD, Creator, Endpoint, PlainWriter, ProducerWriter, Writer, stop_writers

ROUNDS = 8


def read_numbers(server: ServerProcess) -> dict[str, list[int]]:
    """Return the numbers of each writer's lines, in stream order."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for line in read_stream(server, LOAD).decode().splitlines():
        name, number = line.split(":")
        numbers[name].append(int(number))
    return numbers


async def committed_ids(server: ServerProcess) -> tuple[int, list[int]]:
    store = SqliteStore(server.data)
    await store.open()
    try:
        return store.head, [record.committed_id async for record in read_whole_log(store, bytes_max=65_536)]
    finally:
        await store.close()


@pytest.mark.slow
def test_every_acknowledged_append_is_stored_once_and_in_order_after_many_kills(
    start_server: StartServer, chance: random.Random
) -> None:
    server = start_server()
    assert ask(server, "PUT", LOAD, headers=TEXT).status == 201
    endpoint = Endpoint()
    plain = [PlainWriter(endpoint, f"plain-{number}") for number in range(3)]
    plain.append(PlainWriter(endpoint, "large", line_bytes=100_000))  # so that some kills happen during checkpoints
    producers = [ProducerWriter(endpoint, f"producer-{number}") for number in range(3)]
    creator = Creator(endpoint, "creator")
    writers: list[Writer] = [*plain, *producers, creator]
    for writer in writers:
        writer.start()
    try:
        for _ in range(ROUNDS):
            endpoint.move(server.address)
            endpoint.wait_for_answers(more=chance.randint(1, 800))
            server.kill()
            server.restart()
        endpoint.move(server.address)
        endpoint.wait_for_answers(more=len(writers) * 20)
    finally:
        stop_writers([endpoint], writers)

    found = read_numbers(server)
    for writer in plain:
        assert found[writer.name] == sorted(set(found[writer.name]))
        assert set(writer.acknowledged) <= set(found[writer.name])
    for writer in producers:
        assert writer.acknowledged == list(range(len(writer.acknowledged)))
        assert found[writer.name] == writer.acknowledged
    assert set(found) == {writer.name for writer in [*plain, *producers]}
    for number in creator.acknowledged:
        assert ask(server, "GET", creator.path(number)).body == creator.line(number)

    server.terminate()
    head, ids = run(committed_ids(server))
    assert ids == list(range(1, head + 1))


def test_a_producer_that_lost_its_reply_learns_after_the_restart_that_its_append_was_stored(
    start_server: StartServer,
) -> None:
    server = start_server()
    path = "/v1/stream/a"
    producer = {"Producer-Id": "p", "Producer-Epoch": "3", "Producer-Seq": "0"}
    ask(server, "PUT", path, headers=JSON)
    assert ask(server, "POST", path, b'{"n": 1}', JSON | producer).status == 200
    server.kill()
    server.restart()
    again = ask(server, "POST", path, b'{"n": 1}', JSON | producer)
    assert again.status == 204
    assert (again.headers["Producer-Epoch"], again.headers["Producer-Seq"]) == ("3", "0")
    assert ask(server, "POST", path, b'{"n": 2}', JSON | producer | {"Producer-Seq": "1"}).status == 200
    assert ask(server, "GET", path).body == b'[{"n": 1},{"n": 2}]'


def test_closure_expiry_and_deletion_survive_a_kill(start_server: StartServer) -> None:
    server = start_server()
    ask(server, "PUT", "/v1/stream/closed", b"last words", TEXT | {"Stream-Closed": "true"})
    ask(server, "PUT", "/v1/stream/kept", b"x", TEXT | {"Stream-TTL": "3600"})
    ask(server, "PUT", "/v1/stream/gone", b"first life", TEXT)
    assert ask(server, "DELETE", "/v1/stream/gone").status == 204
    server.kill()
    server.restart()
    closed = ask(server, "POST", "/v1/stream/closed", b"more", TEXT)
    assert (closed.status, closed.headers["Stream-Closed"]) == (409, "true")
    assert ask(server, "HEAD", "/v1/stream/kept").headers["Stream-TTL"] == "3600"
    assert ask(server, "GET", "/v1/stream/gone").status == 404
    # A new stream at the same path has other offsets, although the first one existed before the kill.
    again = ask(server, "PUT", "/v1/stream/gone", b"second life", TEXT)
    assert again.status == 201
    assert again.headers["Stream-Next-Offset"].startswith(f"{1:016d}_")
