"""Killed nodes, and a database that restarts under load: every promise is kept."""

import http.client
import signal
import time
from collections import defaultdict

import pytest

from mainstem.checks.rules import check_store
from mainstem.log.store.postgres.snapshot import open_snapshot
from mainstem.log.store.snapshot import Finding
from mainstem.testing.server import ServerProcess
from tests.support.http_requests import TEXT, Reply, ask, read_stream
from tests.support.load_writers import LOAD, Endpoint, ProducerWriter, stop_writers


class PatientProducer(ProducerWriter):
    """A producer that retries after 503, with the same sequence number."""

    refusals = 0

    def request(self, connection: http.client.HTTPConnection, number: int) -> Reply:
        while (reply := super().request(connection, number)).status == 503:
            assert reply.headers["Retry-After"]
            self.refusals += 1
            time.sleep(0.05)
            self.endpoint.check()
        return reply


def start_writers(nodes: list[ServerProcess], number: int) -> tuple[list[Endpoint], list[PatientProducer]]:
    """Start `number` writers per node, with one endpoint per node."""
    endpoints = [Endpoint() for _ in nodes]
    writers = [
        PatientProducer(endpoint, f"{name}-{n}") for name, endpoint in enumerate(endpoints) for n in range(number)
    ]
    for writer in writers:
        writer.start()
    for endpoint, node in zip(endpoints, nodes, strict=True):
        endpoint.move(node.address)
    return endpoints, writers


def check_everything(nodes: list[ServerProcess], writers: list[PatientProducer]) -> None:
    contents = {read_stream(node, LOAD) for node in nodes}
    assert len(contents) == 1, "the nodes show different data"
    found: dict[str, list[int]] = defaultdict(list)
    for line in contents.pop().decode().splitlines():
        name, number = line.split(":")
        found[name].append(int(number))
    for writer in writers:
        assert writer.acknowledged == list(range(len(writer.acknowledged)))
        # The last request may have been stored although the writer was stopped before it got the reply.
        assert found[writer.name][: len(writer.acknowledged)] == writer.acknowledged
        assert len(found[writer.name]) <= len(writer.acknowledged) + 1
        assert found[writer.name] == sorted(set(found[writer.name]))


def find_violations(url: str) -> tuple[Finding, ...]:
    with open_snapshot(url) as snapshot:
        return check_store(snapshot).findings


@pytest.mark.slow
def test_killed_nodes_lose_nothing_and_store_nothing_twice(start_nodes, postgres_url, chance):
    nodes = start_nodes(2)
    assert ask(nodes[0], "PUT", LOAD, headers=TEXT).status == 201
    endpoints, writers = start_writers(nodes, 3)
    try:
        for turn in range(6):
            victim, other = nodes[turn % 2], nodes[1 - turn % 2]
            endpoints[0].wait_for_answers(more=chance.randint(20, 200))
            endpoints[1].wait_for_answers(more=20)
            victim.kill()
            endpoints[turn % 2].move(
                other.address
            )  # its writers continue on the other node, in the middle of a request
            endpoints[turn % 2].wait_for_answers(more=20)
            victim.start()
            endpoints[turn % 2].move(victim.address)
        for endpoint in endpoints:
            endpoint.wait_for_answers(more=50)
    finally:
        stop_writers(endpoints, writers)
    check_everything(nodes, writers)
    for node in nodes:
        assert "Traceback" not in node.stderr
    assert find_violations(postgres_url) == ()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarted", "crashed"])
def test_a_database_that_restarts_under_load_causes_retries_and_nothing_else(start_nodes, postgres, postgres_url, how):
    nodes = start_nodes(2)
    assert ask(nodes[0], "PUT", LOAD, headers=TEXT).status == 201
    endpoints, writers = start_writers(nodes, 3)
    try:
        for _ in range(4):
            for endpoint in endpoints:
                endpoint.wait_for_answers(more=60)
            postgres.restart(how)
        for endpoint in endpoints:
            endpoint.wait_for_answers(more=60)
    finally:
        stop_writers(endpoints, writers)
    check_everything(nodes, writers)
    for node in nodes:
        assert node.running  # no node was restarted
        assert "Traceback" not in node.stderr, node.stderr
    assert find_violations(postgres_url) == ()
