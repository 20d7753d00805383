"""Tokens, claims and keys."""

from typing import Final

from mainstem.errors import MainstemError
from mainstem.server.auth.authenticator import read_header
from mainstem.server.auth.claims import check_addressee, grant, parse_claims
from mainstem.server.auth.credentials import read_bearer
from mainstem.server.auth.keys import JwksUnreadable, parse_jwks
from mainstem.testing.fuzz.target import Target


def read_tokens(data: bytes) -> None:
    token = read_bearer(data)
    if token is not None:
        read_header(token)


def read_claims(data: bytes) -> None:
    claims = parse_claims(data)
    identity = grant(claims)
    assert identity.client_id is None or identity.client_id == claims.client_id
    check_addressee(claims, "i", "a")


def read_keys(data: bytes) -> None:
    parse_jwks(data)


TARGETS: Final = (
    Target(
        "tokens",
        read_tokens,
        (b"Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.e30.c2ln", b"bearer a.b.c", b"Basic YTpi"),
        (b".", b"eyJhbGciOiJub25lIn0", b"=", b"e30", b"bearer "),
    ),
    Target(
        "claims",
        read_claims,
        (
            b'{"client_id":"c","sub":"s","admin":true,"allowed_partitions":["a"],"allowed_partition_prefixes":["b/"],'
            b'"streams":{"read":["a/**"],"write":["a/*"]},"iss":"i","aud":["a"],"iat":1,"nbf":1,"exp":2e9}',
            b'{"streams":["**"],"aud":"a","iss":"i"}',
        ),
        (b'"exp":null', b'"sub":1', b'"streams":["/a"]', b'"client_id":""', b"1e999"),
    ),
    Target(
        "keys",
        read_keys,
        (
            b'{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}',
            b'{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
            b'"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","use":"sig"}]}',
            b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","alg":"RS256"},{"kty":"oct","k":"YQ"}]}',
        ),
        (b'"kty":"RSA"', b'"crv":"X25519"', b'"use":"enc"', b'"key_ops":["verify"]', b'"d":"YQ"', b'"kid":1'),
        documented=(MainstemError, JwksUnreadable),
    ),
)
