"""`WWW-Authenticate`: why a server refused a token, even in a reply to HEAD, which has no body."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.client import Forbidden, Unauthorized
from mainstem.client.core.challenges import Challenge, parse_challenges, read_refusal
from tests.streams_client.canned import canned, reply

EXPIRED = 'Bearer error="invalid_token", error_description="the token expired at 2026-01-01T00:00:00Z"'


@pytest.mark.parametrize(
    ("header", "challenges"),
    [
        ("", []),
        ("Bearer", [Challenge("bearer")]),
        ("Bearer realm=api", [Challenge("bearer", {"realm": "api"})]),
        ('BEARER Realm = "a, b" ,error="x"', [Challenge("bearer", {"realm": "a, b", "error": "x"})]),
        (r'Bearer error="say \"please\" \\o/"', [Challenge("bearer", {"error": r'say "please" \o/'})]),
        (
            'Newauth realm="apps", type=1, title="Login to \\"apps\\"", Basic realm="simple"',
            [
                Challenge("newauth", {"realm": "apps", "type": "1", "title": 'Login to "apps"'}),
                Challenge("basic", {"realm": "simple"}),
            ],
        ),
        ("Negotiate YWJj==, Bearer", [Challenge("negotiate"), Challenge("bearer")]),
        ("Negotiate, Bearer error=x", [Challenge("negotiate"), Challenge("bearer", {"error": "x"})]),
        (", ,Bearer error=x,,", [Challenge("bearer", {"error": "x"})]),
        ('Bearer error="first", error="second"', [Challenge("bearer", {"error": "first"})]),
        ('Bearer error="never ends', [Challenge("bearer")]),
        ("=nonsense", []),
    ],
)
def test_challenges_are_parsed_as_rfc_9110_defines_them(header, challenges):
    assert parse_challenges(header)[: len(challenges)] == challenges
    assert bool(parse_challenges(header)) == bool(challenges)


@given(st.text(alphabet='Bearer ="\\,;x\t\u00e9', max_size=60))
def test_no_header_is_too_strange_to_be_parsed(header):
    assert "\n" not in read_refusal(header)


@given(st.text(min_size=1, max_size=80))
def test_every_quoted_description_arrives(text):
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    [challenge] = parse_challenges(f'Bearer error="invalid_token", error_description="{quoted}"')
    assert challenge.parameters["error_description"] == text


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("head", ()), ("append", ("data",)), ("close", ("data",)), ("read_json", ()), ("delete", ()), ("create", ())],
)
def test_a_refused_token_is_explained_under_the_name_of_the_call(twins, call, arguments):
    with canned(reply(401, {"www-authenticate": EXPIRED})) as peer, pytest.raises(Unauthorized) as caught:
        getattr(twins(peer.url, token="old"), call)("chat/1", *arguments)
    assert caught.value.detail == f"{call} chat/1: the token expired at 2026-01-01T00:00:00Z"
    assert "token=" in caught.value.hint


@pytest.mark.parametrize(("token", "reason"), [(None, "token"), ("not.a.token", "token")])
def test_a_real_server_gives_the_same_reason_to_head_as_to_get(twins, start_server, tmp_path, token, reason):
    secret = tmp_path / "secret"
    secret.write_bytes(b"an operator's secret of thirty-two bytes or more")
    streams = twins(start_server("--jwt-secret-file", str(secret)).url, token=token)
    with pytest.raises(Unauthorized) as head:
        streams.head("chat/1")
    with pytest.raises(Unauthorized) as get:
        streams.read_bytes("chat/1")
    assert head.value.detail.removeprefix("head chat/1: ") == get.value.detail.removeprefix("read_bytes chat/1: ")
    assert head.value.detail.startswith("head chat/1: ")
    assert reason in head.value.detail


def test_a_follower_and_a_producer_name_their_calls(twins):
    with canned(reply(401, {"www-authenticate": EXPIRED})) as peer:
        streams = twins(peer.url)
        with pytest.raises(Unauthorized, match="follow chat/1: the token expired"):
            list(streams.follow("chat/1"))
        with pytest.raises(Unauthorized, match="append chat/1: the token expired"):
            streams.producer("chat/1").append("x")


def test_a_missing_scope_is_explained_too(twins):
    header = 'Bearer realm="x", error="insufficient_scope", scope="write"'
    refusal = reply(403, {"www-authenticate": header})
    with canned(refusal) as peer, pytest.raises(Forbidden, match="head chat/1: insufficient_scope"):
        twins(peer.url).head("chat/1")


def test_the_words_of_a_body_come_before_those_of_the_header(twins):
    problem = {"content-type": "application/problem+json", "www-authenticate": EXPIRED}
    refusal = reply(401, problem, b'{"code": "unauthorized", "detail": "no token was sent"}')
    with canned(refusal) as peer, pytest.raises(Unauthorized, match="read_bytes s: no token was sent"):
        twins(peer.url).read_bytes("s")
