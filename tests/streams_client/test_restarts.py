"""The server is killed and restarts with the same data and port, during every call."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mainstem.client import Retries
from mainstem.testing.server import ServerProcess
from tests.streams_client.servers import Follower

JSON = "application/json"
PATIENT = Retries(attempts_max=100, delay_s=0.05, delay_s_max=0.5)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def fixed(start_server) -> ServerProcess:
    return start_server("--port", str(free_port()), "--long-poll-ms", "500")


@contextmanager
def killed(server: ServerProcess) -> Iterator[None]:
    """Kill the server before the block begins, and start it while the block runs."""
    server.kill()
    starting = threading.Timer(0.1, server.start)
    starting.start()
    try:
        yield
    finally:
        starting.join()


# Calls on a stream that holds [1, 2], and what must be true afterwards.
CALLS: dict[str, tuple[Callable, Callable]] = {
    "create": (
        lambda streams, path: streams.create(f"{path}/made", "text/plain", body="once"),
        lambda streams, path, made: made.content_type == "text/plain" and streams.read_text(f"{path}/made") == "once",
    ),
    "head": (lambda streams, path: streams.head(path), lambda streams, path, info: info.content_type == JSON),
    "append": (
        lambda streams, path: streams.append(path, 3),
        lambda streams, path, _: streams.read_json(path) == [1, 2, 3],
    ),
    "append_json": (
        lambda streams, path: streams.append_json(path, 3, 4),
        lambda streams, path, _: streams.read_json(path) == [1, 2, 3, 4],
    ),
    "read": (lambda streams, path: list(streams.read(path)), lambda streams, path, read: read[0].messages == [1, 2]),
    "read_json": (lambda streams, path: streams.read_json(path), lambda streams, path, read: read == [1, 2]),
    "read_tail": (lambda streams, path: streams.read_tail(path, 1), lambda streams, path, read: read.messages == [2]),
    "fork": (
        lambda streams, path: streams.fork(f"{path}/fork", path),
        lambda streams, path, _: streams.read_json(f"{path}/fork") == [1, 2],
    ),
    "close": (
        lambda streams, path: streams.close(path, 3),
        lambda streams, path, done: done.closed and streams.read_json(path) == [1, 2, 3],
    ),
    "delete": (lambda streams, path: streams.delete(path), lambda streams, path, _: not list(streams.list(path))),
    "list": (
        lambda streams, path: list(streams.list(path)),
        lambda streams, path, found: [info.path for info in found] == [path],
    ),
    "request": (
        lambda streams, path: streams.request("GET", f"/v1/stream/{path}"),
        lambda streams, path, response: response.json() == [1, 2],
    ),
}


@pytest.mark.slow
def test_every_call_waits_for_a_server_that_was_killed(twins, fixed):
    streams = twins(fixed.url, retries=PATIENT)
    for name, (call, holds) in CALLS.items():
        streams.create(name, JSON)
        streams.append_json(name, 1, 2)
        with killed(fixed):
            result = call(streams, name)
        assert holds(streams, name, result), name


@pytest.mark.slow
def test_appends_during_kills_are_each_stored_once(twins, fixed):
    streams = twins(fixed.url, retries=PATIENT)
    streams.create("s", JSON)
    follow = Follower(streams.follow("s"))
    polling = Follower(streams.follow("s", live="long-poll"))
    done = threading.Event()

    def append(writer: int) -> None:
        number = 0
        while not done.is_set():
            streams.append("s", [writer, number])
            number += 1
        counts[writer] = number

    counts = [0] * 4
    threads = [threading.Thread(target=append, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        seen = len(follow.batches)
        follow.wait_until(lambda batches, seen=seen: len(batches) > seen + 5)
        fixed.kill()
        fixed.start()
    done.set()
    for thread in threads:
        thread.join()
    streams.close("s")
    stored = streams.read_json("s")
    for writer in range(4):
        assert [number for who, number in stored if who == writer] == list(range(counts[writer]))
    for each in (follow, polling):
        followed = [message for batch in each.wait_until_ended() for message in batch.messages]
        assert followed == stored


@pytest.mark.slow
def test_a_producer_during_kills_loses_and_duplicates_nothing(twins, fixed):
    streams = twins(fixed.url, retries=PATIENT)
    streams.create("s", JSON)
    follow = Follower(streams.follow("s"))
    done = threading.Event()
    sent = 0
    with streams.producer("s", batch_messages=20, linger_s=0.001, retries=PATIENT, buffer_bytes=20_000) as producer:

        def append() -> None:
            nonlocal sent
            while not done.is_set():
                producer.append_all(list(range(sent, sent + 100)))
                sent += 100

        thread = threading.Thread(target=append)
        thread.start()
        for _ in range(4):
            seen = len(follow.batches)
            follow.wait_until(lambda batches, seen=seen: len(batches) > seen + 3)
            fixed.kill()
            fixed.start()
        done.set()
        thread.join()
        producer.close_stream(sent)
    stored = streams.read_json("s")
    assert stored == list(range(sent + 1))
    assert [message for batch in follow.wait_until_ended() for message in batch.messages] == stored


def test_a_follower_survives_a_kill_of_its_server(twins, fixed, follower):
    streams = twins(fixed.url, retries=Retries(attempts_max=2, delay_s=0.05, delay_s_max=0.1))
    streams.create("s", "text/plain", body="a")
    follows = [follower(streams.follow("s", live=live)) for live in ("auto", "sse", "long-poll")]
    for follow in follows:
        follow.wait_for_data(b"a")
    with killed(fixed):
        pass
    streams.close("s", "b")
    for follow in follows:
        follow.wait_until_ended()
        follow.wait_for_data(b"ab")


@pytest.mark.slow
def test_an_orderly_restart_makes_no_difference(twins, fixed, follower):
    streams = twins(fixed.url, retries=PATIENT)
    streams.create("s", JSON)
    follow = follower(streams.follow("s"))
    with streams.producer("s", retries=PATIENT) as producer:
        for number in range(3):
            producer.append(number)
            fixed.restart()
    follow.wait_for_messages([0, 1, 2])
    streams.close("s")
    follow.wait_until_ended()
