"""Issuers of tokens, both honest and malicious."""

import base64
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

ALGORITHMS = ["HS256", "RS256", "ES256", "EdDSA", "Ed25519"]


def encode(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def sign(key: Key, alg: str, claims: dict[str, Any], **header: Any) -> str:
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    if alg == "EdDSA":  # joserfc warns about the old name, which many issuers still use
        setattr(registry, "get_alg", registry.algorithms.__getitem__)  # noqa: B010 (mypy knows it as a method)
    return jws.serialize_compact({"alg": alg, "typ": "JWT", **header}, json.dumps(claims), key, registry=registry)


def make_key(alg: str) -> Key:
    makers: dict[str, Callable[[], Key]] = {
        "HS256": lambda: OctKey.generate_key(512),
        "RS256": lambda: RSAKey.generate_key(2048),
        "ES256": lambda: ECKey.generate_key("P-256"),
        "EdDSA": lambda: OKPKey.generate_key("Ed25519"),
        "Ed25519": lambda: OKPKey.generate_key("Ed25519"),
    }
    return makers[alg]()


class Issuer:
    """Signs with one key of one type."""

    def __init__(self, alg: str, kid: str | None = None) -> None:
        self.alg = alg
        self.kid = kid
        self.key = make_key(alg)

    def token(self, **claims: Any) -> str:
        return sign(self.key, self.alg, claims, **({} if self.kid is None else {"kid": self.kid}))

    @property
    def jwk(self) -> dict[str, Any]:
        jwk: dict[str, Any] = self.key.as_dict(private=False)
        jwk.pop("kid", None)
        return jwk if self.kid is None else {**jwk, "kid": self.kid}


def write_secret(file: Path) -> Issuer:
    """Write a new secret to a file, as `--jwt-secret-file` expects it, and return the issuer that signs with it."""
    issuer, secret = Issuer("HS256"), secrets.token_hex(64).encode()
    issuer.key = OctKey.import_key(secret)
    file.write_bytes(secret + b"\n")
    return issuer


def jwks(*issuers: Issuer) -> bytes:
    return json.dumps({"keys": [issuer.jwk for issuer in issuers]}).encode()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def unsigned(**claims: Any) -> str:
    return f"{encode({'alg': 'none', 'typ': 'JWT'})}.{encode(claims)}."


class KeyServer:
    """An issuer's web server. The keys that it serves can change, and it counts the requests."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked = 0
        self.again = threading.Condition()
        keys = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with keys.again:
                    keys.asked += 1
                    keys.again.notify_all()
                self.send_response(keys.status)
                for name, value in keys.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(keys.body)))
                self.end_headers()
                self.wfile.write(keys.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/jwks.json"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def wait_until_asked(self, times: int) -> None:
        with self.again:
            assert self.again.wait_for(lambda: self.asked >= times, timeout=30)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serve_keys(body: bytes) -> Iterator[KeyServer]:
    server = KeyServer(body)
    server.start()
    try:
        yield server
    finally:
        server.stop()
