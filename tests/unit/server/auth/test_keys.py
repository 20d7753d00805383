"""Which token settings an operator may combine, and which are refused at the start."""

import json

import pytest
from joserfc.jwk import OctKey, OKPKey, RSAKey

from mainstem.errors import SettingsError
from mainstem.server.auth.authenticator import configure_authenticator
from mainstem.server.run import check_exposure
from mainstem.server.settings import Settings
from mainstem.testing.clock import FakeClock

PUBLIC = RSAKey.generate_key(2048)


def configure(**settings):
    return configure_authenticator(Settings(**settings), FakeClock())


def test_without_keys_no_token_is_required():
    assert configure() is None


@pytest.mark.parametrize(
    "secret",
    [
        b"",
        b"x" * 31,
        b"x" * 31 + b"\n\r\n",
        PUBLIC.as_pem(private=False),
        PUBLIC.as_pem(private=True),
        PUBLIC.as_bytes(encoding="DER", private=False),
        b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeep me@here",
    ],
    ids=["empty", "short", "line-breaks", "public-pem", "private-pem", "public-der", "ssh"],
)
def test_an_invalid_secret_is_refused_and_its_file_named(tmp_path, secret):
    file = tmp_path / "secret"
    file.write_bytes(secret)
    with pytest.raises(SettingsError, match="secret"):
        configure(jwt_secret_file=str(file))


def test_32_bytes_are_enough_for_a_secret(tmp_path):
    (tmp_path / "secret").write_bytes(b"x" * 32 + b"\n")
    assert configure(jwt_secret_file=str(tmp_path / "secret")) is not None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("not json", id="not JSON"),
        pytest.param("[]", id="a list"),
        pytest.param('{"keys": {}}', id="keys not a list"),
        pytest.param('{"keys": [1]}', id="not a key"),
        pytest.param('{"keys": []}', id="no key"),
        pytest.param(json.dumps({"keys": [OctKey.generate_key(256).as_dict(private=True)]}), id="a secret"),
        pytest.param(json.dumps({"keys": [OKPKey.generate_key("Ed448").as_dict(private=False)]}), id="another curve"),
        pytest.param(json.dumps({"keys": [PUBLIC.as_dict(private=False)] * 101}), id="too many"),
        pytest.param(" " * 300_000, id="too long"),
    ],
)
def test_a_jwks_file_that_verifies_nothing_is_refused_and_named(tmp_path, content):
    file = tmp_path / "jwks.json"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"jwks\.json"):
        configure(jwks=str(file))


@pytest.mark.parametrize("missing", ["jwt_secret_file", "jwks"])
def test_a_missing_file_is_named(tmp_path, missing):
    with pytest.raises(SettingsError, match="nowhere"):
        configure(**{missing: str(tmp_path / "nowhere")})
    with pytest.raises(SettingsError):
        configure(**{missing: str(tmp_path)})


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks.json",
        "http://10.0.0.1/jwks.json",
        "http://127.0.0.1.issuer.example/",
        "https://",
        "https://user:word@issuer.example/",
        "https://issuer.example:99999/",
        "https://issuer.example/a b",
        "https://[::1",
    ],
)
def test_keys_are_fetched_over_a_secure_channel_only(url):
    with pytest.raises(SettingsError):
        configure(jwks=url)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/jwks.json", "http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost/"]
)
def test_a_url_is_not_fetched_before_the_server_starts(url):
    assert configure(jwks=url) is not None


@pytest.mark.parametrize("name", ["jwt_issuer", "jwt_audience"])
def test_an_expected_issuer_or_audience_without_keys_is_an_error(name):
    with pytest.raises(SettingsError, match=name):
        configure(**{name: "x"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
@pytest.mark.parametrize("keys", [{"jwt_secret_file": "s"}, {"jwks": "https://issuer.example/"}])
def test_a_public_address_may_be_served_with_tokens(host, keys):
    check_exposure(Settings(host=host, **keys))
    with pytest.raises(SettingsError, match="--jwt-secret-file"):
        check_exposure(Settings(host=host, max_requests_per_second=5))
