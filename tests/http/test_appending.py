"""POST: data, sequences, producers and closing."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
CLOSE = {"stream-closed": "true"}


def offset(position):
    return f"{0:016d}_{position:016d}"


def producer(epoch, seq, producer_id="p"):
    return {"producer-id": producer_id, "producer-epoch": str(epoch), "producer-seq": str(seq)}


class LongWayClient(httpx2.Client):
    """Adds a query, which keeps an append off the server's fast path; it must make no other difference."""

    def post(self, url, **options):
        return super().post(f"{url}?", params={"long": "way"}, **options)


@pytest.fixture(params=[httpx2.Client, LongWayClient], ids=["short", "long"])
def client(request, server):
    with request.param(base_url=server.url, timeout=30, trust_env=False) as client:
        yield client


def test_the_fast_path_and_the_general_path_give_the_same_replies(server, path):
    """Compare header by header, except for the date, the id, and the parts that depend on the stream's path."""
    requests: list[dict[str, Any]] = [
        {"headers": TEXT, "content": b"x"},
        {"headers": TEXT, "content": b""},
        {"headers": {}, "content": b"x"},
        {"headers": JSON, "content": b"1"},
        {"headers": TEXT | {"origin": "https://example.org"}, "content": b"x"},
        {"headers": TEXT | producer(0, 0), "content": b"x"},
        {"headers": TEXT | producer(0, 0), "content": b"x"},
        {"headers": TEXT | producer(0, 1), "content": b"xyz"},
        {"headers": TEXT | producer(0, 2), "content": b"x" * 100_000},  # too large for the fast path
        {"headers": TEXT | producer(0, 3), "content": b"x" * 99},
        {"headers": TEXT | producer(0, 5), "content": b"x"},
        {"headers": TEXT | producer(0, "05"), "content": b"x"},
        {"headers": TEXT | producer(0, 2**53), "content": b"x"},
        {"headers": TEXT | producer("x", 5), "content": b"x"},
        {"headers": TEXT | {"if-match": offset(0)}, "content": b"x"},
        {"headers": TEXT | {"stream-seq": "5"}, "content": b"x"},
        {"headers": TEXT | {"stream-seq": "4"}, "content": b"x"},
        {"headers": CLOSE},
        {"headers": CLOSE},
        {"headers": TEXT, "content": b"x"},
    ]
    replies = []
    for number, way in enumerate((httpx2.Client, LongWayClient)):
        with way(base_url=server.url, trust_env=False) as client:
            client.put(f"{path}/{number}", headers=TEXT)
            for request in requests:
                reply = client.post(f"{path}/{number}", **request)
                headers = {name: value for name, value in reply.headers.items() if name not in ("date", "x-request-id")}
                body = re.sub(rb'"request_id":"[^"]+"', b"", reply.content)
                replies.append((reply.status_code, headers, body))
    half = len(requests)
    assert replies[:half] == replies[half:]


def test_an_append_returns_204_with_the_new_end(client, text_stream):
    first = client.post(text_stream, headers=TEXT, content=b"hello ")
    assert (first.status_code, first.content) == (204, b"")
    assert first.headers["stream-next-offset"] == offset(6)
    assert client.post(text_stream, headers=TEXT, content=b"world").headers["stream-next-offset"] == offset(11)
    assert client.get(text_stream).content == b"hello world"


def test_octets_are_stored_unchanged(client, path):
    every_byte = bytes(range(256)) * 3
    client.put(path)
    client.post(path, headers={"content-type": "application/octet-stream"}, content=every_byte)
    assert client.get(path).content == every_byte


def test_json_messages_are_kept_byte_for_byte(client, json_stream):
    client.post(json_stream, headers=JSON, content=b' { "b": 1.0, "a": 12345678901234567890123 } ')
    client.post(json_stream, headers=JSON, content=b'[[1, 2], "\xc3\xa9", "\\u00e9", -0, 1e2]')
    expected = b'[{ "b": 1.0, "a": 12345678901234567890123 },[1, 2],"\xc3\xa9","\\u00e9",-0,1e2]'
    assert client.get(json_stream).content == expected


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"[1,]", "invalid_json"),
        (b"NaN", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b'"\xed\xa0\x80"', "invalid_json"),
        (b"{} {}", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"[" * 400_000 + b"]" * 400_000, "invalid_json"),
        (b" ", "invalid_json"),
        (b"[]", "empty_array"),
        (b" [ ] ", "empty_array"),
    ],
)
def test_an_invalid_json_message_is_refused_and_not_stored(client, json_stream, body, code):
    refused = client.post(json_stream, headers=JSON, content=body)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == code
    assert client.get(json_stream).content == b"[]"


def test_an_empty_append_is_refused(client, text_stream):
    for headers in (TEXT, {}, TEXT | {"stream-closed": "false"}, TEXT | {"stream-closed": "1"}):
        refused = client.post(text_stream, headers=headers, content=b"")
        assert refused.status_code == 400
        assert refused.json()["code"] == "empty_body"
    assert "stream-closed" not in client.head(text_stream).headers


def test_an_append_needs_a_content_type(client, text_stream):
    for headers in ({}, {"content-type": ""}):
        refused = client.post(text_stream, headers=headers, content=b"x")
        assert refused.status_code == 400
        assert refused.json()["code"] == "missing_content_type"
    mismatch = client.post(text_stream, headers=JSON, content=b"1")
    assert mismatch.status_code == 409
    assert mismatch.json()["code"] == "content_type_mismatch"
    assert client.get(text_stream).content == b""


def test_a_form_sent_to_a_json_stream_names_the_header_to_add(client, path):
    """`curl -d` sends this type unless it gets another one."""
    assert client.put(path, headers=JSON).status_code == 201
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = client.post(path, headers=form, content=b'{"n":1}')
    assert (refused.status_code, refused.json()["code"]) == (409, "content_type_mismatch")
    assert refused.json()["stream_content_type"] == "application/json"
    assert "-H 'Content-Type: application/json'" in refused.json()["hint"]


def test_a_stream_seq_must_rise_byte_by_byte(client, text_stream):
    def send(seq):
        return client.post(text_stream, headers=TEXT | {"stream-seq": seq}, content=seq.encode())

    assert [send(seq).status_code for seq in ("1", "10", "2", "2", "10", "a", "B", "b")] == [
        204,
        204,
        204,
        409,
        409,
        204,
        409,
        204,
    ]
    assert send("0").json()["code"] == "sequence_regression"
    assert client.get(text_stream).content == b"1102ab"


def test_conflicts_are_reported_in_the_order_closed_content_type_sequence(client, text_stream):
    client.post(text_stream, headers=TEXT | {"stream-seq": "5"}, content=b"x")
    both = client.post(text_stream, headers=JSON | {"stream-seq": "1"}, content=b"1")
    assert both.json()["code"] == "content_type_mismatch"
    client.post(text_stream, headers=CLOSE)
    all_three = client.post(text_stream, headers=JSON | {"stream-seq": "1"}, content=b"1")
    assert all_three.status_code == 409
    assert all_three.json()["code"] == "stream_closed"
    assert all_three.headers["stream-closed"] == "true"
    assert all_three.headers["stream-next-offset"] == offset(1)


def test_concurrent_appends_are_all_stored_whole_and_each_receives_its_own_end(client, text_stream):
    lines = [b"%04d|" % number for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda line: client.post(text_stream, headers=TEXT, content=line), lines))
    data = client.get(text_stream).content
    for line, reply in zip(lines, replies, strict=True):
        end = int(reply.headers["stream-next-offset"].split("_")[1])
        assert data[end - 5 : end] == line
    assert len(data) == 1000


# Producers


def test_a_repeated_producer_seq_is_stored_once(client, text_stream):
    first = client.post(text_stream, headers=TEXT | producer(0, 0), content=b"once")
    assert (first.status_code, first.headers["producer-epoch"], first.headers["producer-seq"]) == (200, "0", "0")
    for _ in range(3):
        again = client.post(text_stream, headers=TEXT | producer(0, 0), content=b"once")
        assert (again.status_code, again.headers["producer-epoch"], again.headers["producer-seq"]) == (204, "0", "0")
        assert again.headers["stream-next-offset"] == offset(4)
    assert client.get(text_stream).content == b"once"


def test_a_late_duplicate_receives_the_highest_seq(client, text_stream):
    for seq in range(3):
        client.post(text_stream, headers=TEXT | producer(0, seq), content=b"x")
    late = client.post(text_stream, headers=TEXT | producer(0, 0), content=b"x")
    assert (late.status_code, late.headers["producer-seq"]) == (204, "2")


def test_a_gap_returns_409_with_the_expected_seq(client, text_stream):
    client.post(text_stream, headers=TEXT | producer(0, 0), content=b"0")
    gap = client.post(text_stream, headers=TEXT | producer(0, 2), content=b"2")
    assert gap.status_code == 409
    assert gap.json()["code"] == "producer_gap"
    assert (gap.headers["producer-expected-seq"], gap.headers["producer-received-seq"]) == ("1", "2")
    assert client.get(text_stream).content == b"0"


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one(client, text_stream):
    client.post(text_stream, headers=TEXT | producer(0, 0), content=b"a")
    late_start = client.post(text_stream, headers=TEXT | producer(1, 1), content=b"b")
    assert (late_start.status_code, late_start.json()["code"]) == (400, "epoch_must_start_at_zero")
    assert client.post(text_stream, headers=TEXT | producer(7, 0), content=b"b").status_code == 200
    fenced = client.post(text_stream, headers=TEXT | producer(0, 1), content=b"c")
    assert (fenced.status_code, fenced.json()["code"]) == (403, "stale_epoch")
    assert fenced.headers["producer-epoch"] == "7"
    assert client.get(text_stream).content == b"ab"


@pytest.mark.parametrize("missing", ["producer-id", "producer-epoch", "producer-seq"])
def test_producer_headers_must_come_together(client, text_stream, missing):
    headers = producer(0, 0)
    del headers[missing]
    refused = client.post(text_stream, headers=TEXT | headers, content=b"x")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_header")
    assert client.get(text_stream).content == b""


def test_racing_retries_of_one_request_are_stored_once(client, text_stream):
    with ThreadPoolExecutor(8) as pool:
        retries = [
            pool.submit(client.post, text_stream, headers=TEXT | producer(0, 0), content=b"once") for _ in range(16)
        ]
        statuses = sorted(retry.result().status_code for retry in retries)
    assert statuses == [200] + [204] * 15
    assert client.get(text_stream).content == b"once"


def test_a_producer_starts_from_scratch_on_a_path_that_was_created_again(client, text_stream):
    client.post(text_stream, headers=TEXT | producer(4, 0), content=b"old")
    client.delete(text_stream)
    client.put(text_stream, headers=TEXT)
    assert client.post(text_stream, headers=TEXT | producer(0, 0), content=b"new").status_code == 200


# Closing


@pytest.mark.parametrize("value", ["true", "TRUE", "True"])
def test_closing_is_idempotent_and_ends_the_stream(client, text_stream, value):
    client.post(text_stream, headers=TEXT, content=b"data")
    for _ in range(2):
        closed = client.post(text_stream, headers={"stream-closed": value})
        assert closed.status_code == 204
        assert closed.headers["stream-closed"] == "true"
        assert closed.headers["stream-next-offset"] == offset(4)
    refused = client.post(text_stream, headers=TEXT, content=b"more")
    assert (refused.status_code, refused.json()["code"]) == (409, "stream_closed")
    assert refused.headers["stream-closed"] == "true"
    assert refused.headers["stream-next-offset"] == offset(4)


@pytest.mark.parametrize("value", ["false", "yes", "1", "", "true!"])
def test_only_the_value_true_closes(client, text_stream, value):
    sent = client.post(text_stream, headers=TEXT | {"stream-closed": value}, content=b"x")
    assert sent.status_code == 204
    assert "stream-closed" not in client.head(text_stream).headers


def test_a_close_ignores_the_content_type(client, json_stream):
    assert client.post(json_stream, headers=CLOSE | {"content-type": "image/png"}).status_code == 204


def test_the_last_data_and_the_close_are_one_step(client, text_stream):
    last = client.post(text_stream, headers=TEXT | CLOSE, content=b"end")
    assert (last.status_code, last.headers["stream-closed"]) == (204, "true")
    again = client.post(text_stream, headers=TEXT | CLOSE, content=b"end")
    assert again.status_code == 409
    assert client.get(text_stream).content == b"end"


def test_only_the_producer_request_that_closed_the_stream_may_be_retried(client, text_stream):
    client.post(text_stream, headers=TEXT | producer(0, 0), content=b"a")
    close = TEXT | CLOSE | producer(0, 1)
    assert client.post(text_stream, headers=close, content=b"b").status_code == 200
    retried = client.post(text_stream, headers=close, content=b"b")
    assert (retried.status_code, retried.headers["stream-closed"]) == (204, "true")
    for other in (producer(0, 2), producer(1, 0), producer(0, 0, "q")):
        assert client.post(text_stream, headers=TEXT | CLOSE | other, content=b"b").status_code == 409
    assert client.get(text_stream).content == b"ab"


# Conditional appends


def test_if_match_appends_only_if_the_stream_ends_there(client, text_stream):
    first = client.post(text_stream, headers=TEXT | {"if-match": offset(0)}, content=b"mine")
    assert first.status_code == 204
    late = client.post(text_stream, headers=TEXT | {"if-match": offset(0)}, content=b"late")
    assert (late.status_code, late.json()["code"]) == (412, "tail_moved")
    assert late.headers["stream-next-offset"] == offset(4)
    assert client.post(text_stream, headers=TEXT | {"if-match": f'"{offset(4)}"'}, content=b"!").status_code == 204
    for malformed in ("*", "-1", "now", "x", '"etag"'):
        refused = client.post(text_stream, headers=TEXT | {"if-match": malformed}, content=b"no")
        assert refused.status_code == 400
    assert client.get(text_stream).content == b"mine!"
