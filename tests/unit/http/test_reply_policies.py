import pytest

from mainstem.http.reply_policies import ReplyPolicy
from mainstem.http.responses import CORS_HEADERS, SECURITY_HEADERS

PAGE = [*CORS_HEADERS, (b"cache-control", b"public, max-age=60"), (b"vary", b"accept-encoding")]


def apply(policy, headers=PAGE):
    before = list(headers)
    found = policy.apply(headers)
    assert headers == before, "cached headers must not change"
    assert len(dict(found)) == len(found)
    return dict(found)


def test_a_closed_policy_removes_every_cors_header():
    found = apply(ReplyPolicy())
    assert not [name for name in found if name.startswith(b"access-control-")]
    assert found[b"vary"] == b"accept-encoding"


@pytest.mark.parametrize("credentials", [True, False])
def test_an_open_policy_names_the_origin(credentials):
    found = apply(ReplyPolicy(b"https://a", credentials, True))
    assert found[b"access-control-allow-origin"] == b"https://a"
    assert (b"access-control-allow-credentials" in found) == credentials
    assert found[b"vary"] == b"accept-encoding, origin"


def test_a_reply_without_cors_headers_gets_none():
    assert apply(ReplyPolicy(b"https://a", True, True), SECURITY_HEADERS) == dict(SECURITY_HEADERS)


def test_private_replies():
    found = apply(ReplyPolicy(private=b"authorization, cookie", by_cookie=True))
    assert found[b"cache-control"] == b"private, max-age=60"
    assert found[b"vary"] == b"accept-encoding, authorization, cookie"
    assert found[b"cross-origin-resource-policy"] == b"same-origin"
    assert apply(ReplyPolicy(private=b"authorization", by_url=True))[b"referrer-policy"] == b"no-referrer"


def test_equal_policies_are_one_key():
    assert {ReplyPolicy(b"a"): 1}[ReplyPolicy(b"a")] == 1
    assert ReplyPolicy(b"a") != ReplyPolicy(b"b")
