"""The claims of a token and what they grant. A claim of the wrong type invalidates the token; it is never ignored."""

from typing import Any
from unicodedata import normalize

import msgspec
from msgspec import UNSET, UnsetType

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import BadRequest, Unauthorized
from mainstem.globs import check_glob
from mainstem.json_errors import explain_json_error


class StreamGrants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Absent is not null: the issuer of a token with `"exp": null` meant it to expire, so that token is refused."""

    client_id: str | UnsetType = UNSET
    sub: Any = UNSET
    """The subject, used if the token names no client. Issuers put many things here; only text counts."""
    admin: bool = False
    metrics: bool = False
    allowed_partitions: tuple[str, ...] = ()
    allowed_partition_prefixes: tuple[str, ...] = ()
    streams: tuple[str, ...] | StreamGrants = ()
    """Globs, either for both reading and writing or for each of them."""
    iss: str | UnsetType = UNSET
    aud: str | tuple[str, ...] | UnsetType = UNSET
    iat: float | UnsetType = UNSET
    nbf: float | UnsetType = UNSET
    exp: float | UnsetType = UNSET


def parse_claims(payload: bytes) -> Claims:
    """Return the claims in the payload of a token. Raises `Unauthorized` if they are malformed."""
    try:
        claims = msgspec.json.decode(payload, type=Claims)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unauthorized(f"the token is not valid: {explain_json_error(error, 'its payload')}") from None
    if claims.client_id is not UNSET and not 1 <= len(claims.client_id.encode()) <= limits.CLIENT_ID_BYTES_MAX:
        raise Unauthorized(f"the token is not valid: its client_id must have 1 to {limits.CLIENT_ID_BYTES_MAX} bytes")
    return claims


def grant(claims: Claims) -> Identity:
    """Return the caller that the claims describe."""
    streams = claims.streams
    grants = streams if isinstance(streams, StreamGrants) else StreamGrants(streams, streams)
    for pattern in (*grants.read, *grants.write):
        try:
            check_glob(pattern)
        except BadRequest as error:
            raise Unauthorized(f"the token is not valid: its streams claim has a bad glob: {error.detail}") from None
    return Identity(
        client_id=_given(claims.client_id),
        subject=_subject(claims.sub),
        admin=claims.admin,
        metrics=claims.metrics,
        # Partition names are always compared in this form (sync protocol: NFC first).
        partitions=frozenset(normalize("NFC", name) for name in claims.allowed_partitions),
        partition_prefixes=tuple(normalize("NFC", prefix) for prefix in claims.allowed_partition_prefixes),
        stream_reads=grants.read,
        stream_writes=grants.write,
        expires_at_s=_given(claims.exp),
    )


def check_addressee(claims: Claims, issuer: str | None, audience: str | None) -> None:
    """Raise `Unauthorized` unless the token names the issuer and the audience that the operator has configured."""
    if issuer is not None and claims.iss != issuer:
        raise Unauthorized("the token comes from another issuer")
    audiences = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
    if audience is not None and (audiences is UNSET or audience not in audiences):
        raise Unauthorized("the token is for another audience")


def _subject(value: Any) -> str | None:
    if isinstance(value, str) and 1 <= len(value.encode("utf-8", "replace")) <= limits.CLIENT_ID_BYTES_MAX:
        return value
    return None


def _given(value: Any) -> Any:
    return None if value is UNSET else value
