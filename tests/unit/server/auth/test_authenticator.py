"""Claims and identities, and the tokens that the authenticator caches."""

import json

import pytest

from mainstem.errors import Unauthorized
from mainstem.server.auth import authenticator as auth
from mainstem.server.auth.authenticator import Authenticator
from mainstem.server.auth.rates import CALLERS_MAX, RateLimits
from mainstem.server.settings import Settings
from mainstem.signed_urls import sign_with_secret
from mainstem.testing.clock import SECOND_US, START_US, FakeClock

SECRET = b"s" * 32


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def authenticator(tmp_path, clock):
    (tmp_path / "secret").write_bytes(SECRET)
    return Authenticator(Settings(jwt_secret_file=str(tmp_path / "secret")), clock)


def token(**claims):
    return sign_with_secret(json.dumps(claims).encode(), SECRET)


async def test_claims_become_an_identity(authenticator):
    identity = await authenticator.identify(
        token(
            client_id="c",
            allowed_partitions=["p", "e\u0301"],
            allowed_partition_prefixes=["team-"],
            streams={"read": ["a/*"], "write": ["b"]},
            exp=START_US // SECOND_US + 1,
            sub="ignored",
        )
    )
    assert (identity.client_id, identity.admin) == ("c", False)
    assert identity.partitions == {"p", "\u00e9"}  # names are normalised as partition names are
    assert identity.partition_prefixes == ("team-",)
    assert (identity.stream_reads, identity.stream_writes) == (("a/*",), ("b",))
    assert identity.expires_at_s == START_US // SECOND_US + 1


async def test_a_list_of_streams_grants_reading_and_writing(authenticator):
    identity = await authenticator.identify(token(streams=["a", "b/**"]))
    assert identity.stream_reads == identity.stream_writes == ("a", "b/**")


async def test_an_empty_token_of_a_trusted_issuer_allows_nothing(authenticator):
    identity = await authenticator.identify(token())
    assert [identity.admin, identity.may_read("a"), identity.may_write("a"), identity.may_use("a")] == [False] * 4


@pytest.mark.parametrize(
    "claims",
    [
        {"admin": "true"},
        {"admin": 1},
        {"admin": None},
        {"client_id": 7},
        {"client_id": ""},
        {"client_id": None},
        {"client_id": "x" * 257},
        {"streams": "**"},
        {"streams": ["a", 1]},
        {"streams": None},
        {"streams": {"read": "**"}},
        {"streams": {"reads": ["**"]}},
        {"streams": ["/a"]},
        {"streams": [""]},
        {"streams": {"write": ["a**"]}},
        {"allowed_partitions": "p"},
        {"allowed_partitions": {"p": True}},
        {"allowed_partition_prefixes": [None]},
        {"exp": "2030-01-01"},
        {"exp": None},
        {"exp": True},
        {"nbf": "0"},
        {"iat": []},
    ],
    ids=json.dumps,
)
async def test_a_claim_of_the_wrong_type_invalidates_the_token(authenticator, claims):
    bad = token(**{"streams": ["**"], **claims})
    with pytest.raises(Unauthorized):
        await authenticator.identify(bad)
    assert authenticator.known(bad) is None


@pytest.mark.parametrize("payload", [b"", b"[]", b'"x"', b"{", b"\xff", b"null", b"[" * 10_000])
async def test_claims_that_are_not_an_object_invalidate_the_token(authenticator, payload):
    with pytest.raises(Unauthorized):
        await authenticator.identify(sign_with_secret(payload, SECRET)[: auth.TOKEN_BYTES_MAX])


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b",
        "é.b.c",
        "e30.e30.",
        "bnVsbA.e30.x",
        "W10.e30.x",
        "a" * 10_000,
        "eyJhbGciOjF9.e30.x",
    ],
)
async def test_text_that_is_not_a_token_is_refused(authenticator, text):
    with pytest.raises(Unauthorized):
        await authenticator.identify(text)


async def test_a_verified_token_is_cached_until_it_expires(authenticator, clock):
    short = token(exp=START_US // SECOND_US + 5)
    assert authenticator.known(short) is None
    identity = await authenticator.identify(short)
    assert authenticator.known(short) is identity
    assert await authenticator.identify(short) is identity
    clock.advance(5)
    assert authenticator.known(short) is None
    with pytest.raises(Unauthorized, match="expired"):
        await authenticator.identify(short)


async def test_a_limited_number_of_tokens_is_cached(authenticator, monkeypatch):
    monkeypatch.setattr(auth, "TOKENS_KNOWN_MAX", 3)
    tokens = [token(client_id=str(number)) for number in range(5)]
    for one in tokens:
        await authenticator.identify(one)
    assert [authenticator.known(one) is not None for one in tokens] == [False, False, True, True, True]
    assert (await authenticator.identify(tokens[0])).client_id == "0"


def test_a_limited_number_of_callers_is_counted(clock):
    rates = RateLimits(1, clock)
    assert rates.take("first") == 0
    assert rates.take("first") == 1
    for number in range(CALLERS_MAX):
        rates.take(str(number))
    assert rates.take("first") == 0


def test_a_clock_that_is_set_back_costs_a_caller_nothing(clock):
    rates = RateLimits(2, clock)
    assert rates.take("a") == 0
    clock.now_us -= 3600 * SECOND_US
    assert rates.take("a") == 0
    assert rates.take("a") == 0.5
    clock.advance(0.5)
    assert rates.take("a") == 0
