"""`If-Match: <offset>` on POST: append only if the stream still ends there, otherwise 412 with its current end."""

from concurrent.futures import ThreadPoolExecutor

import pytest

ROOT = "/v1/stream/"
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


@pytest.fixture
def stream(client, path):
    assert client.put(ROOT + path, headers=TEXT).status_code == 201
    return ROOT + path


def tail(client, stream):
    return client.head(stream).headers["stream-next-offset"]


def check_refused(reply, current):
    assert reply.status_code == 412
    assert reply.headers["stream-next-offset"] == current
    assert reply.headers["content-type"] == "application/problem+json"
    assert (reply.json()["code"], reply.json()["next_offset"]) == ("tail_moved", current)


@pytest.mark.parametrize("form", ["{}", '"{}"'])
def test_an_append_at_the_expected_end_is_accepted_and_any_other_is_412_with_the_end(client, stream, form):
    start = tail(client, stream)
    taken = client.post(stream, headers=TEXT | {"if-match": form.format(start)}, content=b"one")
    assert taken.status_code == 204
    end = taken.headers["stream-next-offset"]
    refused = client.post(stream, headers=TEXT | {"if-match": form.format(start)}, content=b"two")
    check_refused(refused, end)
    again = client.post(stream, headers=TEXT | {"if-match": refused.headers["stream-next-offset"]}, content=b"two")
    assert again.status_code == 204
    assert client.get(stream).content == b"onetwo"


def test_an_end_that_the_stream_has_not_reached_gets_412_too(client, stream):
    beyond = tail(client, stream)[:-1] + "9"
    check_refused(client.post(stream, headers=TEXT | {"if-match": beyond}, content=b"x"), tail(client, stream))
    other_life = "0000000000000001" + tail(client, stream)[16:]
    check_refused(client.post(stream, headers=TEXT | {"if-match": other_life}, content=b"x"), tail(client, stream))


@pytest.mark.parametrize("value", ["*", "-1", "now", "x", "", '""', '"*"', 'W/"x"', "0_0", "x" * 65])
def test_a_condition_that_is_not_an_offset_gets_400(client, stream, value):
    assert client.post(stream, headers=TEXT | {"if-match": value}, content=b"x").status_code == 400
    assert client.get(stream).content == b""


def test_a_condition_may_be_given_once(client, stream):
    offset = tail(client, stream)
    headers = [("content-type", "text/plain"), ("if-match", offset), ("if-match", offset)]
    assert client.post(stream, headers=headers, content=b"x").status_code == 400


def test_a_missing_stream_gets_404_whatever_the_condition(client, path):
    headers = TEXT | {"if-match": "0000000000000000_0000000000000000"}
    assert client.post(ROOT + path, headers=headers, content=b"x").status_code == 404


def test_closing_may_be_conditional_too(client, stream):
    start = tail(client, stream)
    client.post(stream, headers=TEXT, content=b"x")
    closing = {"stream-closed": "true"}
    check_refused(client.post(stream, headers=closing | {"if-match": start}), tail(client, stream))
    assert "stream-closed" not in client.head(stream).headers
    assert client.post(stream, headers=closing | {"if-match": tail(client, stream)}).status_code == 204
    assert client.head(stream).headers["stream-closed"] == "true"


def test_a_closed_stream_gets_409_whatever_the_condition(client, stream):
    client.post(stream, headers={"stream-closed": "true"})
    for offset in (tail(client, stream), tail(client, stream)[:-1] + "9"):
        refused = client.post(stream, headers=TEXT | {"if-match": offset}, content=b"x")
        assert (refused.status_code, refused.headers["stream-closed"]) == (409, "true")


def producer(seq, epoch=0):
    return TEXT | {"producer-id": "p", "producer-epoch": str(epoch), "producer-seq": str(seq)}


def test_a_refused_append_of_a_producer_consumes_no_sequence_number(client, stream):
    start = tail(client, stream)
    taken = client.post(stream, headers=producer(0) | {"if-match": start}, content=b"one")
    assert taken.status_code == 200
    check_refused(
        client.post(stream, headers=producer(1) | {"if-match": start}, content=b"two"),
        taken.headers["stream-next-offset"],
    )
    now = client.post(stream, headers=producer(1) | {"if-match": tail(client, stream)}, content=b"two")
    assert now.status_code == 200
    assert client.get(stream).content == b"onetwo"


def test_a_retry_of_what_is_stored_is_a_duplicate_and_not_a_conflict(client, stream):
    """The condition held when it was stored, and a client that lost the reply must learn that."""
    start = tail(client, stream)
    headers = producer(0) | {"if-match": start}
    assert client.post(stream, headers=headers, content=b"one").status_code == 200
    client.post(stream, headers=TEXT, content=b"other")
    assert client.post(stream, headers=headers, content=b"one").status_code == 204
    assert client.get(stream).content == b"oneother"


def test_a_fenced_producer_gets_stale_epoch_first(client, stream):
    start = tail(client, stream)
    client.post(stream, headers=producer(0, epoch=5), content=b"one")
    assert client.post(stream, headers=producer(0, epoch=4) | {"if-match": start}, content=b"x").status_code == 403


@pytest.mark.parametrize("size", [1, 100_000], ids=["fast path", "ASGI"])
def test_of_concurrent_writers_with_the_same_condition_exactly_one_wins(client, stream, size):
    for _ in range(5):
        start = tail(client, stream)
        bodies = [bytes([letter]) * size for letter in b"abcdefgh"]
        with ThreadPoolExecutor(len(bodies)) as pool:
            headers = TEXT | {"if-match": start}
            sent = [pool.submit(client.post, stream, headers=headers, content=body) for body in bodies]
            replies = [sending.result() for sending in sent]
        assert sorted(reply.status_code for reply in replies) == [204] + [412] * (len(bodies) - 1)
        winner = bodies[[reply.status_code for reply in replies].index(204)]
        assert client.get(f"{stream}?offset={start}").content == winner
        assert {reply.headers["stream-next-offset"] for reply in replies} == {tail(client, stream)}


def test_a_counter_kept_by_conditional_appends_loses_no_increment(client, path):
    stream = ROOT + path
    client.put(stream, headers=JSON, content=b"[0]")

    def increment(_):
        while True:
            page = client.get(f"{stream}?tail=1")
            value = page.json()[-1] + 1
            headers = JSON | {"if-match": page.headers["stream-next-offset"]}
            if client.post(stream, headers=headers, content=str(value).encode()).status_code == 204:
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(increment, range(24)))
    assert client.get(stream).json() == list(range(25))
