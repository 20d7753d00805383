"""Tokens, headers and parameters: sent with every request, and evaluated each time."""

import itertools

import pytest

from mainstem.client import AsyncStreams, BadArgument, Unauthorized
from tests.streams_client.canned import canned, reply

INFO = {"content-type": "text/plain", "stream-next-offset": "1", "stream-up-to-date": "true"}
OK = reply(200, INFO, b"")
CLOSED = reply(200, {**INFO, "stream-closed": "true"}, b"")


def test_headers_and_the_token_are_sent_with_every_kind_of_request(twins):
    with canned(OK) as peer:
        streams = twins(peer.url, token="secret", headers={"X-Custom": "mine"}, params={"tenant": "a b"})
        streams.create("s", "text/plain")
        streams.append("s", "x")
        streams.head("s")
        streams.read_bytes("s")
        streams.close("s")
        streams.delete("s")
        assert {asked.method for asked in peer.asked} == {"PUT", "POST", "HEAD", "GET", "DELETE"}
        assert {asked.headers["authorization"] for asked in peer.asked} == {"Bearer secret"}
        assert {asked.headers["x-custom"] for asked in peer.asked} == {"mine"}
        assert all("tenant=a+b" in asked.target for asked in peer.asked)


def test_callables_are_called_for_each_request(twins):
    numbers = itertools.count(1)
    with canned(reply(503), OK) as peer:
        streams = twins(
            peer.url, token=lambda: f"t{next(numbers)}", headers={"x": lambda: "h"}, params={"p": lambda: "q"}
        )
        streams.head("s")
        streams.head("s")
        assert [asked.headers["authorization"] for asked in peer.asked] == ["Bearer t1", "Bearer t2", "Bearer t3"]
        assert {asked.headers["x"] for asked in peer.asked} == {"h"}
        assert all(asked.target.endswith("p=q") for asked in peer.asked)


def test_appends_and_reads_each_have_their_own_value(twins):
    numbers = itertools.count(1)
    shown = {"authorization": "Bearer v1"}
    with canned(OK) as peer:
        streams = twins(
            peer.url,
            headers={"Authorization": lambda: shown["authorization"]},
            params={"request_id": lambda: str(next(numbers))},
        )
        streams.append("s", "first", content_type="text/plain")
        streams.read_bytes("s")
        shown["authorization"] = "Bearer v2"
        streams.append("s", "second", content_type="text/plain")
        streams.read_bytes("s")
        assert [asked.target.rpartition("request_id=")[2] for asked in peer.asked] == ["1", "2", "3", "4"]
        assert [asked.headers["authorization"] for asked in peer.asked] == ["Bearer v1"] * 2 + ["Bearer v2"] * 2


def test_live_reads_send_the_headers_and_parameters_too(twins):
    events = b'event: control\ndata: {"streamNextOffset": "1", "streamClosed": true}\n\n'
    for live, last in (("long-poll", CLOSED), ("sse", reply(200, {"content-type": "text/event-stream"}, events))):
        with canned(OK, last) as peer:
            streams = twins(peer.url, token="secret", headers={"X-Trace-Id": "trace"}, params={"tenant": "a"})
            assert list(streams.follow("s", live=live))[-1].closed
            assert f"live={live}" in peer.asked[1].target
            assert all("tenant=a" in asked.target for asked in peer.asked)
            assert {asked.headers["x-trace-id"] for asked in peer.asked} == {"trace"}
            assert {asked.headers["authorization"] for asked in peer.asked} == {"Bearer secret"}


def test_a_follower_requests_a_token_for_every_connection(twins):
    numbers = itertools.count(1)
    with canned(OK, b"", CLOSED) as peer:
        assert list(twins(peer.url, token=lambda: str(next(numbers))).follow("s", live="long-poll"))
        assert [asked.headers["authorization"] for asked in peer.asked] == ["Bearer 1", "Bearer 2", "Bearer 3"]


def test_an_expired_token_is_requested_once_more(twins):
    tokens = iter(["old", "fresh", "fresh", "bad", "worse"])
    with canned(reply(401), OK, OK, reply(401)) as peer:
        streams = twins(peer.url, token=lambda: next(tokens))
        streams.head("s")
        streams.head("s")
        with pytest.raises(Unauthorized) as caught:
            streams.head("s")
        assert "token" in caught.value.hint
        assert len(peer.asked) == 5


def test_a_refused_fixed_token_is_not_sent_again(twins):
    with canned(reply(401)) as peer:
        with pytest.raises(Unauthorized):
            twins(peer.url, token="old").head("s")
        assert len(peer.asked) == 1


async def test_an_async_client_accepts_coroutine_functions():
    async def fetch_token() -> str:
        return "fetched"

    with canned(OK) as peer:
        async with AsyncStreams(peer.url, token=fetch_token) as streams:
            await streams.head("s")
        assert peer.asked[0].headers["authorization"] == "Bearer fetched"


def test_a_callable_that_fails_fails_the_call(twins):
    def fail() -> str:
        raise LookupError("no token today")

    with canned(OK) as peer, pytest.raises(LookupError, match="today"):
        twins(peer.url, token=fail).head("s")


@pytest.mark.parametrize("value", ["a\r\nx: y", 7, None])
def test_a_header_that_is_not_one_line_is_refused(twins, value):
    with canned(OK) as peer:
        with pytest.raises(BadArgument, match="x-mine"):
            twins(peer.url, headers={"x-mine": lambda: value}).head("s")
        with pytest.raises(BadArgument, match="line break"):
            twins(peer.url).append("s", "x", seq="a\nb")
        assert not any("x" in asked.headers for asked in peer.asked)


@pytest.mark.parametrize(
    ("token", "said"),
    [("", "token is empty"), (" ", "token is empty"), ("a\0", "token contains"), ("a ", "token contains")],
)
def test_a_token_that_no_header_can_carry_is_named(twins, token, said):
    with canned(OK) as peer:
        for source in (token, lambda: token):
            with pytest.raises(BadArgument, match=f"{said}.*leave it out"):
                twins(peer.url, token=source).head("s")
        assert peer.asked == []


@pytest.mark.parametrize("url", ["127.0.0.1:4437", "ftp://x", "http://", "http://x?a=b", ""])
def test_an_invalid_address_is_refused(twins, url):
    with pytest.raises(BadArgument, match="http://127"):
        twins(url)


def test_a_server_below_a_path_is_reached_there(twins):
    with canned(OK) as peer:
        twins(f"{peer.url}/mounted/").head("a/b")
        assert peer.asked[0].target == "/mounted/v1/stream/a/b"


def test_a_redirect_is_followed_but_its_target_receives_no_token(twins):
    with canned(OK) as there, canned(reply(307, {"location": f"{there.url}/elsewhere"})) as here:
        twins(here.url, token="secret").head("s")
        assert here.asked[0].headers["authorization"] == "Bearer secret"
        assert "authorization" not in there.asked[0].headers
