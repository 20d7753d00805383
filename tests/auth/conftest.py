import http.client
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from joserfc.jwk import RSAKey

from mainstem.server.settings import Settings
from mainstem.testing.server_thread import ServerThread
from tests.support.issuers import Issuer, bearer, jwks, sign, unsigned, write_secret

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class Guarded(NamedTuple):
    """A server that requires tokens: of a shared secret, and of an issuer with RSA keys."""

    server: ServerThread
    secret: Issuer
    rsa: Issuer


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    secret, rsa = write_secret(folder / "secret"), Issuer("RS256", "rsa")
    settings = Settings(
        port=0,
        data=str(folder / "data"),
        jwt_secret_file=str(folder / "secret"),
        jwks=write_jwks(folder / "jwks.json", rsa),
        long_poll_ms=10_000,
        allow_local_webhooks=True,
    )
    with ServerThread(settings) as server:
        yield Guarded(server, secret, rsa)


def write_jwks(path: Path, *issuers: Issuer) -> str:
    path.write_bytes(jwks(*issuers))
    return str(path)


@pytest.fixture
def secret_file(tmp_path: Path) -> tuple[str, Issuer]:
    return str(tmp_path / "secret"), write_secret(tmp_path / "secret")


@pytest.fixture
def client(guarded: Guarded, connect_to: Callable[..., httpx2.Client]) -> httpx2.Client:
    """A client without a token."""
    return connect_to(guarded.server)


@pytest.fixture
def admin(guarded: Guarded, connect_to: Callable[..., httpx2.Client]) -> httpx2.Client:
    client = connect_to(guarded.server)
    client.headers.update(bearer(guarded.secret.token(client_id="root", admin=True)))
    return client


@pytest.fixture
def shake_hands():
    connections = []

    def shake(server, target, headers):
        connection = http.client.HTTPConnection(server.address[0], server.address[1], timeout=30)
        connections.append(connection)
        connection.request("GET", target, headers={**UPGRADE, **headers})
        return connection.getresponse()

    yield shake
    for connection in connections:
        connection.close()


def wrong_tokens(guarded: Guarded) -> dict[str, str | None]:
    """Return every kind of token that is invalid, although its claims would allow everything."""
    now_s = time.time()
    assert isinstance(guarded.rsa.key, RSAKey)
    public_pem = guarded.rsa.key.as_pem(private=False)
    stranger = Issuer("HS256")
    return {
        "no token": None,
        "bad signature": f"Bearer {stranger.token(admin=True)}",
        "alg none": f"Bearer {unsigned(admin=True)}",
        "public key as secret": f"Bearer {sign_with_public_key(public_pem)}",
        "another RSA key": f"Bearer {sign(Issuer('RS256').key, 'RS256', {'admin': True}, kid='rsa')}",
        "HS512": f"Bearer {sign(guarded.secret.key, 'HS512', {'admin': True})}",
        "expired": f"Bearer {guarded.secret.token(admin=True, exp=now_s - 1)}",
        "early": f"Bearer {guarded.secret.token(admin=True, nbf=now_s + 3600)}",
        "not a token": "Bearer letmein",
        "another scheme": "Basic cm9vdDpyb290",
    }


def sign_with_public_key(pem: bytes) -> str:
    """The classic forgery: a verifier that trusts the token's alg would use the public key as an HMAC secret."""
    import base64
    import hashlib
    import hmac

    from tests.support.issuers import encode

    text = f"{encode({'alg': 'HS256', 'kid': 'rsa'})}.{encode({'admin': True})}"
    digest = hmac.new(pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
