"""`Stream-Retention`: only the newest part of a stream is kept, and a reader of older data learns where it begins."""

import pytest

from mainstem.testing.clock import FakeClock
from tests.support.event_streams import open_events
from tests.support.waits import eventually

ROOT = "/v1/stream/"
TEXT = {"content-type": "text/plain"}


@pytest.fixture
def clock(clocked):
    return clocked[1]


@pytest.fixture
def client(clocked, connect_to):
    return connect_to(clocked[0])


def create(client, path, retention, **headers):
    made = client.put(ROOT + path, headers=TEXT | {"stream-retention": retention} | headers)
    assert made.status_code == 201, made.text


def fill(client, path, *, count=10, clock=None):
    """Append ten bytes at a time, one second apart, and return the offsets before, between and after the appends."""
    offsets = [client.head(ROOT + path).headers["stream-next-offset"]]
    for number in range(count):
        reply = client.post(ROOT + path, headers=TEXT, content=b"%010d" % number)
        offsets.append(reply.headers["stream-next-offset"])
        if clock is not None:
            clock.advance(1)
    return offsets


def earliest(client, path):
    return client.head(ROOT + path).headers["stream-earliest-offset"]


def numbers(text):
    return [int(text[at : at + 10]) for at in range(0, len(text), 10)]


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        ("max-bytes=30", 3),
        ("max-bytes=39", 3),
        ("max-bytes=1", 1),
        ("max-messages=4", 4),
        ("max-messages=1", 1),
        ("max-messages=7, max-bytes=20", 2),
        ("max-messages=2, max-bytes=1000", 2),
    ],
)
def test_records_beyond_a_bound_are_surplus_but_never_the_newest(client, path, clock, retention, kept):
    create(client, path, retention)
    offsets = fill(client, path)
    clock.advance(6)
    eventually(lambda: earliest(client, path) == offsets[10 - kept])
    assert numbers(client.get(ROOT + path).text) == list(range(10))[-kept:]
    assert numbers(client.get(f"{ROOT}{path}?tail=100").text) == list(range(10))[-kept:]


def test_records_that_are_too_old_are_surplus(client, path, clock):
    create(client, path, "max-age=60")
    offsets = fill(client, path, clock=clock)
    clock.advance(55)  # the first is 65 s old, the last 56
    eventually(lambda: earliest(client, path) == offsets[5])
    clock.advance(1000)
    eventually(lambda: earliest(client, path) == offsets[9])  # at least one message must remain
    assert numbers(client.get(ROOT + path).text) == [9]


def test_a_trimmed_offset_gets_410_with_the_earliest(client, path, clock):
    create(client, path, "max-messages=3")
    offsets = fill(client, path)
    clock.advance(6)
    eventually(lambda: earliest(client, path) == offsets[7])
    for query in ("", "&live=long-poll", "&live=sse"):
        gone = client.get(f"{ROOT}{path}?offset={offsets[6]}{query}")
        assert gone.status_code == 410
        assert gone.headers["stream-earliest-offset"] == offsets[7]
        assert (gone.json()["code"], gone.json()["earliest_offset"]) == ("offset_gone", offsets[7])
    assert numbers(client.get(f"{ROOT}{path}?offset={offsets[7]}").text) == [7, 8, 9]
    assert numbers(client.get(f"{ROOT}{path}?offset=-1").text) == [7, 8, 9]
    assert client.get(f"{ROOT}{path}?offset={offsets[10]}").text == ""
    listed = client.get("/v1/streams", params={"prefix": path}).json()["streams"][0]
    assert listed["earliest_offset"] == offsets[7]


def test_a_reader_of_the_beginning_learns_that_it_was_trimmed(client, path, clock):
    create(client, path, "max-messages=3")
    offsets = fill(client, path, count=3)
    for query in ("", "?offset=-1", f"?offset={offsets[0]}"):
        assert "stream-earliest-offset" not in client.get(ROOT + path + query).headers
    kept = client.get(f"{ROOT}{path}?offset={offsets[1]}")  # the server keeps this page in memory
    offsets += fill(client, path, count=1)[1:]
    clock.advance(6)
    eventually(lambda: earliest(client, path) == offsets[1])
    client.get(f"{ROOT}{path}?offset={offsets[1]}")
    for _ in range(2):
        trimmed = client.get(ROOT + path)
        assert trimmed.headers["stream-earliest-offset"] == offsets[1]
        same = client.get(ROOT + path, headers={"if-none-match": trimmed.headers["etag"]})
        assert (same.status_code, same.headers["stream-earliest-offset"]) == (304, offsets[1])
    assert trimmed.text.startswith(kept.text)
    for query in ("?offset=now", f"?offset={offsets[1]}", f"?offset={offsets[2]}", "?tail=2"):
        assert "stream-earliest-offset" not in client.get(ROOT + path + query).headers


def test_appending_continues_after_a_trim(client, path, clock):
    create(client, path, "max-messages=2")
    offsets = fill(client, path)
    clock.advance(6)
    eventually(lambda: earliest(client, path) == offsets[8])
    again = fill(client, path)
    assert again[0] == offsets[-1]
    clock.advance(6)
    eventually(lambda: earliest(client, path) == again[8])


def test_json_is_trimmed_by_messages_in_whole_batches(client, path, clock):
    client.put(ROOT + path, headers={"content-type": "application/json", "stream-retention": "max-messages=4"})
    for batch in (b"[1,2,3]", b"[4,5,6]", b"[7]"):
        client.post(ROOT + path, headers={"content-type": "application/json"}, content=batch)
    clock.advance(6)
    eventually(lambda: client.get(ROOT + path).json() == [4, 5, 6, 7])


def test_head_shows_the_policy_in_its_canonical_form(client, path):
    create(client, path, "max-messages=3 ,max-age=60")
    head = client.head(ROOT + path).headers
    assert head["stream-retention"] == "max-age=60, max-messages=3"
    assert head["stream-earliest-offset"] == "0000000000000000_0000000000000000"
    client.put(ROOT + path + "/plain", headers=TEXT)
    assert "stream-retention" not in client.head(ROOT + path + "/plain").headers


def test_the_policy_is_part_of_the_configuration(client, path):
    create(client, path, "max-bytes=10, max-age=60")
    same = TEXT | {"stream-retention": "max-age=60,max-bytes=10"}
    assert client.put(ROOT + path, headers=same).status_code == 200
    for other in ({}, {"stream-retention": "max-bytes=10"}, {"stream-retention": "max-bytes=11, max-age=60"}):
        assert client.put(ROOT + path, headers=TEXT | other).status_code == 409
    client.put(ROOT + path + "/plain", headers=TEXT)
    assert client.put(ROOT + path + "/plain", headers=same).status_code == 409


def test_an_invalid_policy_gets_400(client, path):
    for header in (
        "",
        "x",
        "max-age",
        "max-age=0",
        "max-age=-1",
        "max-age=1.5",
        "max-bytes=1,max-bytes=2",
        "max-bytes=9007199254740992",
    ):
        refused = client.put(ROOT + path, headers=TEXT | {"stream-retention": header})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_header"), header
    assert client.head(ROOT + path).status_code == 404


def test_a_policy_may_be_given_once(client, path):
    headers = [("content-type", "text/plain"), ("stream-retention", "max-age=1"), ("stream-retention", "max-age=1")]
    assert client.put(ROOT + path, headers=headers).status_code == 400


def test_forks_suspend_trimming_until_they_are_deleted(client, path, clock):
    create(client, path, "max-messages=3")
    fill(client, path, count=3)
    assert client.put(ROOT + path + "/f", headers={"stream-forked-from": ROOT + path}).status_code == 201
    offsets = fill(client, path, count=7)
    create(client, path + "/witness", "max-messages=3")
    other = fill(client, path + "/witness")
    clock.advance(6)
    eventually(lambda: earliest(client, path + "/witness") == other[7])  # so the retention check has run
    assert earliest(client, path) == "0000000000000000_0000000000000000"
    assert numbers(client.get(ROOT + path + "/f").text) == [0, 1, 2]
    assert numbers(client.get(ROOT + path).text) == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6]
    client.delete(ROOT + path + "/f")

    def resumed():
        clock.advance(6)
        return earliest(client, path) == offsets[4]

    eventually(resumed)
    assert client.get(f"{ROOT}{path}?offset={offsets[0]}").status_code == 410


def test_a_fork_of_a_trimmed_stream_begins_where_its_source_does(client, path, clock):
    create(client, path, "max-messages=3")
    offsets = fill(client, path)
    clock.advance(6)
    eventually(lambda: earliest(client, path) == offsets[7])
    headers = {"stream-forked-from": ROOT + path}
    assert client.put(ROOT + path + "/f", headers=headers | {"stream-fork-offset": offsets[6]}).status_code in {
        400,
        410,
    }
    assert client.put(ROOT + path + "/f", headers=headers | {"stream-fork-offset": offsets[9]}).status_code == 201
    assert numbers(client.get(ROOT + path + "/f").text) == [7, 8]
    assert client.get(f"{ROOT}{path}/f?offset={offsets[6]}").status_code == 410


def test_the_policy_the_beginning_and_the_trimming_survive_a_restart(start_thread, connect_to, hasty, tmp_path):
    clock = FakeClock()
    settings = {"clock_us": clock, "data": str(tmp_path / "kept")}
    server = start_thread(**settings)
    client = connect_to(server)
    create(client, "s", "max-messages=3")
    create(client, "later", "max-messages=3")
    offsets = fill(client, "s")
    clock.advance(6)
    eventually(lambda: earliest(client, "s") == offsets[7])
    more = fill(client, "later")
    server.stop()
    client = connect_to(start_thread(**settings))
    head = client.head(ROOT + "s").headers
    assert (head["stream-retention"], head["stream-earliest-offset"]) == ("max-messages=3", offsets[7])
    assert numbers(client.get(ROOT + "s").text) == [7, 8, 9]
    clock.advance(6)
    eventually(lambda: earliest(client, "later") == more[7])


def test_a_live_reader_at_the_end_does_not_notice_the_trimming(client, path, clock):
    create(client, path, "max-messages=1")
    with open_events(client, f"{ROOT}{path}?offset=-1&live=sse") as events:
        next(events)
        for number in range(5):
            client.post(ROOT + path, headers=TEXT, content=b"%010d" % number)
            assert numbers(next(events).data) == [number]
            next(events)
            clock.advance(6)
            tail = client.head(ROOT + path).headers["stream-next-offset"]
            eventually(lambda tail=tail: int(earliest(client, path)[17:]) == int(tail[17:]) - 10)


def test_a_stream_that_is_created_again_does_not_inherit_the_policy(client, path, clock):
    create(client, path, "max-messages=1")
    fill(client, path, count=3)
    client.delete(ROOT + path)
    client.put(ROOT + path, headers=TEXT)
    fill(client, path, count=3)
    create(client, path + "/witness", "max-messages=1")
    other = fill(client, path + "/witness", count=3)
    clock.advance(6)
    eventually(lambda: earliest(client, path + "/witness") == other[2])
    assert numbers(client.get(ROOT + path).text) == [0, 1, 2]
