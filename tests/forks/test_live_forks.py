"""Live reads of forks: inherited data arrives at once, and later appends to the source never do."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.forks.branches import JSON, ROOT, TEXT, fork
from tests.support.event_streams import open_events
from tests.support.waits import eventually


@pytest.fixture
def target(path):
    return path + "/fork"


def append(client, path, data, content_type=TEXT):
    assert client.post(ROOT + path, headers={"content-type": content_type}, content=data).status_code == 204


def test_a_long_poll_on_a_fork_waits_only_for_the_fork(server, client, path, target):
    client.put(ROOT + path, headers={"content-type": TEXT}, content=b"shared")
    tail = fork(client, target, path).headers["stream-next-offset"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"{ROOT}{target}?offset={tail}&live=long-poll")
        eventually(lambda: server.app.live.readers == 1)
        for _ in range(5):
            append(client, path, b"source")
        append(client, target, b"fork")
        assert (waiting.result().status_code, waiting.result().content) == (200, b"fork")


def test_a_long_poll_within_the_inherited_part_does_not_wait(client, path, target):
    client.put(ROOT + path, headers={"content-type": TEXT}, content=b"shared")
    fork(client, target, path)
    append(client, path, b"source")
    read = client.get(f"{ROOT}{target}?offset=0000000000000000_0000000000000002&live=long-poll")
    assert (read.status_code, read.content) == (200, b"ared")
    assert read.headers["stream-up-to-date"] == "true"


def test_sse_on_a_fork_sends_inherited_data_then_its_own_and_nothing_of_the_source(server, client, path, target):
    client.put(ROOT + path, headers={"content-type": JSON}, content=b"[1,2,3]")
    fork(client, target, path, "0000000000000000_0000000000000000", 2)
    append(client, path, b"4", JSON)
    with open_events(client, ROOT + target + "?offset=-1&live=sse") as events:
        assert next(events).json == [1, 2]
        assert next(events).json["upToDate"] is True
        eventually(lambda: server.app.live.readers == 1)
        append(client, path, b"5", JSON)
        append(client, target, b'"own"', JSON)
        assert next(events).json == ["own"]
        next(events)
        client.post(ROOT + target, headers={"stream-closed": "true"})
        assert next(events).json["streamClosed"] is True
        assert next(events, None) is None


def test_closing_or_deleting_the_source_does_not_end_a_reader_of_the_fork(server, client, path, target):
    client.put(ROOT + path, headers={"content-type": TEXT}, content=b"shared")
    fork(client, target, path)
    with open_events(client, ROOT + target + "?offset=now&live=sse") as events:
        next(events)
        client.post(ROOT + path, headers={"stream-closed": "true"})
        client.delete(ROOT + path)
        append(client, target, b"fork")
        assert next(events).data == "fork"


def test_deleting_a_source_with_forks_ends_its_sse_readers_cleanly(server, client, path, target):
    client.put(ROOT + path, headers={"content-type": TEXT}, content=b"shared")
    fork(client, target, path)
    with open_events(client, f"{ROOT}{path}?offset=-1&live=sse") as events:
        assert [next(events).name for _ in range(2)] == ["data", "control"]
        client.delete(ROOT + path)
        assert next(events).name == "deleted"
        assert next(events, None) is None


def test_deleting_a_source_with_forks_ends_its_long_polls_with_410(server, client, path, target):
    tail = client.put(ROOT + path, headers={"content-type": TEXT}, content=b"shared").headers["stream-next-offset"]
    fork(client, target, path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"{ROOT}{path}?offset={tail}&live=long-poll")
        eventually(lambda: server.app.live.readers == 1)
        client.delete(ROOT + path)
        assert waiting.result().status_code == 410
