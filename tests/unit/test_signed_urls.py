import base64
import json

import pytest

from mainstem.access import Identity, ReadUrl
from mainstem.errors import BadPath, BadRequest, SettingsError
from mainstem.signed_urls import check_lifetime, find_in_url, find_target, sign_url, write_path
from mainstem.streams.rules.paths import Mount

SECRET = "s" * 32
MOUNT = Mount()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h/v1/stream/a/b", ReadUrl(stream="a/b")),
        ("https://h:1/v1/stream/a%2Fb?x=y", ReadUrl(stream="a/b")),
        ("/v1/stream/a/", ReadUrl(stream="a/")),
        ("/v1/stream/\u00e9", ReadUrl(stream="\u00e9")),
        ("/log/v1/stream/v1/stream/a", ReadUrl(stream="v1/stream/a")),
        ("/v1/partition/a/v1/stream/b", ReadUrl(partition="a/v1/stream/b")),
        ("/v1/stream/a/v1/partition/b", ReadUrl(stream="a/v1/partition/b")),
        ("/v1/partition/e%CC%81", ReadUrl(partition="\u00e9")),
        ("/v1/stream/*", ReadUrl(stream="*")),
    ],
)
def test_a_url_names_one_stream_or_partition(url, target):
    assert find_in_url(url, MOUNT) == target


@pytest.mark.parametrize("url", ["", "x", "/v1/streams/a", "//h/v1/stream/a", "ftp://h/v1/stream/a", "/v1/stream/a b"])
def test_other_urls_are_refused(url):
    with pytest.raises(BadRequest):
        find_in_url(url, MOUNT)


@pytest.mark.parametrize("path", ["", "..", "a/%2e%2e/b", "a//b", "%zz", "%ff"])
def test_a_path_that_is_not_a_stream_is_refused(path):
    with pytest.raises(BadPath):
        find_in_url("/v1/stream/" + path, MOUNT)


def test_control_paths_are_no_target():
    assert find_target(b"/v1/stream/__ds/jwks.json", MOUNT) is None
    assert find_target(b"/v1/stream-snapshot/a", MOUNT) is None


@pytest.mark.parametrize("target", [ReadUrl(stream="a b/\u00e9?#%"), ReadUrl(partition="a b/\u00e9?#%")])
def test_the_path_of_a_target_names_it(target):
    assert find_in_url(write_path(target, MOUNT), MOUNT) == target


def test_the_claims_of_a_signature():
    url = sign_url("/v1/stream/a?live=sse", SECRET, issuer="i", audience="u", client_id="c")
    before, _, signature = url.partition("&signature=")
    assert before == "/v1/stream/a?live=sse"
    claims = json.loads(base64.urlsafe_b64decode(signature.split(".")[1] + "=="))
    assert claims.pop("exp") > 0
    assert claims == {"read_url": {"stream": "a"}, "iss": "i", "aud": "u", "client_id": "c"}


@pytest.mark.parametrize("seconds", [0, -1, 3601, float("inf"), float("nan")])
def test_a_lifetime_is_bounded(seconds):
    with pytest.raises(BadRequest):
        check_lifetime(seconds)


@pytest.mark.parametrize("secret", ["", "s" * 31, "s" * 31 + "\n", "-----BEGIN PUBLIC KEY-----" + "s" * 32])
def test_a_secret_that_is_too_weak_is_refused(secret):
    with pytest.raises(SettingsError):
        sign_url("/v1/stream/a", secret)


def test_an_identity_of_a_signed_url_reads_its_target_only():
    stream, partition = Identity(read_url=ReadUrl(stream="a")), Identity(read_url=ReadUrl(partition="a"))
    assert stream.may_read("a")
    assert partition.may_use("a")
    others = [stream.may_use("a"), partition.may_read("a"), stream.may_read("b"), stream.may_write("a")]
    others += [stream.may_read_all("a"), stream.may_read_target(ReadUrl()), Identity().may_read_target(ReadUrl())]
    others += [Identity(read_url=ReadUrl(stream="**")).may_read("a")]
    assert not any(others)
