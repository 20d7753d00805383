import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadHeader, BadQuery, BodyCutShort, BodyTooLarge, RepeatedHeader
from mainstem.http.headers import SINGLE_HEADERS
from mainstem.http.requests import collect_headers, is_true, read_body, read_query, request_origin, text_header
from mainstem.streams.http.headers import read_producer
from mainstem.streams.states import ProducerTuple


def headers_of(*pairs):
    return collect_headers(pairs)


def query_of(text):
    return read_query({"query_string": text})


def gather(messages, *, headers=None, bytes_max=10):
    """Read a body from these ASGI messages; running out of messages fails the test."""
    waiting = iter(messages)

    async def receive():
        return next(waiting)

    return asyncio.run(read_body(headers or {}, receive, bytes_max))


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize("name", sorted(SINGLE_HEADERS))
def test_a_single_valued_header_may_appear_once(name):
    assert headers_of((name, b"x")) == {name: b"x"}
    with pytest.raises(RepeatedHeader):
        headers_of((name, b"x"), (b"accept", b"*/*"), (name, b"x"))


@pytest.mark.parametrize("name", [b"accept-encoding", b"if-none-match", b"x-forwarded-for", b"cookie"])
def test_a_list_header_may_be_split_into_several(name):
    assert headers_of((name, b"a"), (name, b"b"), (name, b"c")) == {name: b"a, b, c"}


def test_every_request_header_of_the_protocol_has_a_single_value():
    protocol = b"stream-closed stream-seq stream-ttl stream-expires-at producer-id producer-epoch producer-seq"
    assert SINGLE_HEADERS.issuperset([*protocol.split(), b"content-type", b"content-length"])


def test_a_header_is_utf8_text_of_bounded_length():
    assert text_header({}, b"stream-seq", 5) is None
    assert text_header({b"stream-seq": b""}, b"stream-seq", 5) == ""
    assert text_header({b"stream-seq": "été".encode()}, b"stream-seq", 5) == "été"
    for value in (b"123456", b"\xff", b"caf\xe9"):
        with pytest.raises(BadHeader):
            text_header({b"stream-seq": value}, b"stream-seq", 5)


@pytest.mark.parametrize("value", [b"true", b"TRUE", b"True", b"tRuE"])
def test_true_is_accepted_in_any_case(value):
    assert is_true({b"stream-closed": value}, b"stream-closed")


@pytest.mark.parametrize("value", [b"", b"false", b"1", b"yes", b"t", b"true ", b"truetrue", b"true, true"])
def test_any_other_value_counts_as_an_absent_header(value):
    assert not is_true({b"stream-closed": value}, b"stream-closed")
    assert not is_true({}, b"stream-closed")


def producer_of(producer_id, epoch, seq):
    given = {b"producer-id": producer_id, b"producer-epoch": epoch, b"producer-seq": seq}
    headers = {name: value for name, value in given.items() if value is not None}
    found = read_producer(headers)
    return None if found is None else found.read_seq(headers)


def test_a_producer_is_three_headers_or_none():
    assert producer_of(None, None, None) is None
    assert producer_of(b"p", b"0", b"7") == ProducerTuple("p", 0, 7)
    for some in [(b"p", None, None), (None, b"0", None), (None, None, b"0")]:
        with pytest.raises(BadHeader):
            producer_of(*some)
    for missing in [(None, b"0", b"0"), (b"p", None, b"0"), (b"p", b"0", None)]:
        with pytest.raises(BadHeader):
            producer_of(*missing)


@pytest.mark.parametrize("value", [b"0", b"1", b"42", str(2**53 - 1).encode()])
def test_producer_numbers_reach_the_largest_safe_integer_of_javascript(value):
    assert producer_of(b"p", value, value) == ProducerTuple("p", int(value), int(value))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"-1",
        b"+1",
        b"01",
        b"1.0",
        b"1e3",
        b"0x1",
        b"1_0",
        b"abc",
        b"null",
        b"\xd9\xa3",
        str(2**53).encode(),
        b"9" * 16,
        b"9" * 5000,
    ],
)
def test_any_other_producer_number_is_refused(value):
    for bad in [(b"p", value, b"0"), (b"p", b"0", value)]:
        with pytest.raises(BadHeader):
            producer_of(*bad)


@pytest.mark.parametrize("value", [b"", b"\xff", b"p" * (limits.PRODUCER_ID_BYTES_MAX + 1)])
def test_a_producer_id_is_text_of_bounded_length(value):
    with pytest.raises(BadHeader):
        producer_of(value, b"0", b"0")


def test_a_query_is_percent_decoded():
    assert query_of(b"") == {}
    assert query_of(b"offset=%2D1&live=long-poll&x=") == {"offset": "-1", "live": "long-poll", "x": ""}


@pytest.mark.parametrize("name", ["offset", "live", "cursor"])
def test_a_known_parameter_may_appear_once(name):
    for text in (f"{name}=1&{name}=1", f"{name}=&x=y&{name}=2", f"{name}=1&%{ord(name[0]):02x}{name[1:]}=2"):
        with pytest.raises(BadQuery):
            query_of(text.encode())


def test_an_unknown_parameter_is_ignored():
    assert query_of(b"utm=1&utm=2&offset=-1")["offset"] == "-1"


def test_an_overlong_query_is_refused():
    with pytest.raises(BadQuery):
        query_of(b"x" * (limits.QUERY_BYTES_MAX + 1))


@given(st.binary(max_size=100))
def test_any_query_is_parsed_or_refused(raw):
    try:
        query = query_of(raw)
    except BadQuery:
        return
    assert all(isinstance(value, str) for value in query.values())


def test_a_body_arrives_in_one_part_or_in_many():
    assert gather([part(b"0123456789", more=False)]) == b"0123456789"
    assert gather([part(b"01"), part(b""), part(b"23"), part(b"", more=False)]) == b"0123"
    assert gather([{"type": "http.request"}]) == b""


def test_a_body_over_the_limit_is_refused_after_its_client_has_sent_it_and_reads_the_reply():
    for messages in (
        [part(b"01234567890", more=False)],
        [part(b"0123456"), part(b"7890"), part(b"", more=False)],
        [GONE],
    ):
        with pytest.raises(BodyTooLarge) as caught:
            gather(messages, headers={b"content-length": b"11"})
        assert caught.value.facts == {"limit_bytes": 10}


def test_a_body_over_the_limit_is_refused_at_once_if_its_client_expects_100_continue():
    with pytest.raises(BodyTooLarge):
        gather([], headers={b"content-length": b"11", b"expect": b"100-continue"})


def test_a_body_of_unknown_length_is_read_to_its_end_but_no_further_than_a_limit(monkeypatch):
    with pytest.raises(BodyTooLarge):
        gather([part(b"0123456"), part(b"7890"), part(b"1", more=False)])
    with pytest.raises(BodyTooLarge):
        gather([part(b"01234567890", more=False)])
    monkeypatch.setattr("mainstem.limits.BODY_DISCARD_BYTES_MAX", 10)
    with pytest.raises(BodyTooLarge):
        gather([part(b"0123456789"), part(b"0123456789"), part(b"0123456789")])


def test_a_body_that_is_cut_short_is_an_error_and_not_a_short_body():
    with pytest.raises(BodyCutShort):
        gather([part(b"012"), GONE])
    with pytest.raises(BodyCutShort):
        gather([GONE])


@pytest.mark.parametrize(
    "host", [b"streams.example.org", b"a", b"10.0.0.1:8080", b"[2001:db8::1]:443", b"my_host", b"example.org."]
)
def test_a_forwarded_host_and_scheme_are_used(host):
    headers = {b"host": b"inner:1", b"x-forwarded-host": host, b"x-forwarded-proto": b"HTTPS"}
    assert request_origin({"scheme": "http"}, headers) == f"https://{host.decode()}"


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example/path",
        b"evil.example?x",
        b"evil.example#x",
        b"user@evil.example",
        b"evil.example:99999999",
        b"evil.example:",
        b"evil example",
        b"evil.example\\x",
        b"evil\x7f.example",
        b"ev\xc3\xafl.example",
        b"-evil.example",
        b"[::1",
        b"[evil]",
        b"a" * 300,
        b"",
    ],
)
def test_an_invalid_forwarded_host_is_ignored(host):
    assert request_origin({"scheme": "http"}, {b"host": b"inner:1", b"x-forwarded-host": host}) == "http://inner:1"
    assert request_origin({"scheme": "https"}, {b"host": host}) == "https://localhost"


@pytest.mark.parametrize("scheme", [b"javascript", b"ftp", b"https://evil.example/?", b"http:", b""])
def test_a_forwarded_scheme_is_http_or_https(scheme):
    assert request_origin({"scheme": "https"}, {b"host": b"a", b"x-forwarded-proto": scheme}) == "https://a"
