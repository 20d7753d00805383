"""Deleting sources and forks: 410 while forks still read the data, 404 and no data left after the last fork."""

import apsw
import pytest

from mainstem.testing.clock import FakeClock
from tests.forks.branches import ROOT, TEXT, fork, read_all
from tests.support.waits import eventually


def grow_chain(client, *names):
    """Create a chain: each stream is a fork of the previous one and appends its own name."""
    for number, name in enumerate(names):
        headers = {"stream-forked-from": ROOT + names[number - 1]} if number else {"content-type": TEXT}
        assert client.put(ROOT + name, headers=headers, content=name.encode()).status_code == 201


def count_data(data) -> int:
    db = apsw.Connection(str(data / "mainstem.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return db.execute('SELECT count(*) FROM records WHERE "end" > "start"').get
    finally:
        db.close()


@pytest.fixture
def data(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def client(start_thread, connect_to, hasty, data):
    return connect_to(start_thread(data=str(data)))


def statuses(client, *names):
    return [client.head(ROOT + name).status_code for name in names]


def test_a_deleted_source_with_forks_is_410_for_all_requests_and_its_path_is_in_use(client):
    grow_chain(client, "a", "b")
    assert client.delete(ROOT + "a").status_code == 204
    answers = {
        "get": client.get(ROOT + "a"),
        "head": client.head(ROOT + "a"),
        "post": client.post(ROOT + "a", headers={"content-type": TEXT}, content=b"x"),
        "close": client.post(ROOT + "a", headers={"stream-closed": "true"}),
        "delete": client.delete(ROOT + "a"),
        "long-poll": client.get(ROOT + "a?offset=-1&live=long-poll"),
        "sse": client.get(ROOT + "a?offset=-1&live=sse"),
    }
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(answers, 410)
    assert answers["get"].json()["code"] == "stream_gone"
    assert client.put(ROOT + "a", headers={"content-type": TEXT}).status_code == 409
    assert fork(client, "a", "b").status_code == 409
    assert read_all(client, "b") == b"ab"


def test_the_data_of_a_deleted_source_is_kept_until_its_last_fork_is_gone(client, data):
    grow_chain(client, "a", "b")
    fork(client, "c", "a")
    client.delete(ROOT + "a")
    client.delete(ROOT + "b")
    eventually(lambda: count_data(data) == 1)  # the data that only b had is erased
    assert read_all(client, "c") == b"a"
    assert statuses(client, "a", "b", "c") == [410, 404, 200]
    client.delete(ROOT + "c")
    eventually(lambda: statuses(client, "a", "b", "c") == [404, 404, 404])
    eventually(lambda: count_data(data) == 0)


def test_deleting_the_last_fork_cascades_over_three_levels(client, data):
    grow_chain(client, "a", "b", "c", "d")
    for name in "abc":
        client.delete(ROOT + name)
    assert statuses(client, "a", "b", "c", "d") == [410, 410, 410, 200]
    assert read_all(client, "d") == b"abcd"
    client.delete(ROOT + "d")
    eventually(lambda: statuses(client, "a", "b", "c", "d") == [404, 404, 404, 404])
    eventually(lambda: count_data(data) == 0)


def test_the_cascade_stops_at_a_stream_that_is_not_deleted(client):
    grow_chain(client, "a", "b", "c")
    client.delete(ROOT + "b")
    client.delete(ROOT + "c")
    eventually(lambda: statuses(client, "a", "b", "c") == [200, 404, 404])
    assert read_all(client, "a") == b"a"
    client.delete(ROOT + "a")
    eventually(lambda: statuses(client, "a") == [404])


def test_a_path_is_free_again_after_the_cascade_and_starts_from_scratch(client):
    grow_chain(client, "a", "b")
    old = client.head(ROOT + "a").headers["stream-next-offset"]
    client.delete(ROOT + "a")
    client.delete(ROOT + "b")
    eventually(lambda: statuses(client, "a") == [404])
    created = client.put(ROOT + "a", headers={"content-type": TEXT}, content=b"new")
    assert created.status_code == 201
    assert created.headers["stream-next-offset"] > old
    assert client.get(f"{ROOT}a?offset={old}").status_code == 410
    assert read_all(client, "a") == b"new"


def test_an_expired_fork_releases_its_source(start_thread, connect_to, hasty, data):
    clock = FakeClock()
    client = connect_to(start_thread(data=str(data), clock_us=clock))
    grow_chain(client, "a")
    fork(client, "b", "a", stream_ttl="10")
    client.delete(ROOT + "a")
    assert statuses(client, "a", "b") == [410, 200]
    clock.advance(10)
    eventually(lambda: statuses(client, "a", "b") == [404, 404])
    eventually(lambda: count_data(data) == 0)


def test_a_kill_between_a_deletion_and_its_cascade_loses_neither(start_server, connect_to):
    server = start_server()
    client = connect_to(server)
    grow_chain(client, "a", "b", "c")
    fork(client, "alive", "b")
    grow_chain(client, "x", "y", "z")
    for name in ("a", "b", "x", "y"):
        client.delete(ROOT + name)
    assert client.delete(ROOT + "c").status_code == 204
    assert client.delete(ROOT + "z").status_code == 204
    server.kill()  # the cascade takes several rounds of the reaper, which runs once per second
    server.start()
    client = connect_to(server)
    assert statuses(client, "c", "z", "alive") == [404, 404, 200]
    assert read_all(client, "alive") == b"ab"
    eventually(lambda: statuses(client, "x", "y", "z") == [404, 404, 404])
    assert statuses(client, "a", "b", "c", "alive") == [410, 410, 404, 200]
    assert read_all(client, "alive") == b"ab"
    eventually(lambda: count_data(server.data) == 2)
