"""The claims of a token and what they grant. A claim of the wrong type invalidates the token; it is never ignored."""

from typing import Any
from unicodedata import normalize

import msgspec
from msgspec import UNSET, UnsetType

from mainstem import limits
from mainstem.access import Identity, ReadUrl
from mainstem.errors import BadRequest, Unauthorized
from mainstem.globs import check_glob
from mainstem.json_errors import explain_json_error


class StreamGrants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class ReadUrlClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a signed URL is for: exactly one of these."""

    stream: str | UnsetType = UNSET
    partition: str | UnsetType = UNSET


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
    sign_urls: bool = False
    read_url: ReadUrlClaim | UnsetType = UNSET
    """Makes the token the signature of a URL, and nothing else."""
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
        sign_urls=claims.sign_urls,
        expires_at_s=_given(claims.exp),
    )


def grant_url(claims: Claims, now_us: int) -> Identity:
    """Return the caller whose URL has these claims: it may read what they name. All other grants are ignored."""
    if claims.read_url is UNSET:
        raise Unauthorized("the token is not for a signed URL: it has no read_url claim")
    if claims.exp is UNSET:
        raise Unauthorized("the token has no exp claim, and a signed URL must expire")
    if claims.exp > now_us / 1_000_000 + limits.SIGNED_URL_S_MAX + limits.SIGNED_URL_SKEW_S_MAX:
        raise Unauthorized(f"the token expires too late: a signed URL is valid for at most {limits.SIGNED_URL_S_MAX} s")
    stream, partition = _given(claims.read_url.stream), _given(claims.read_url.partition)
    if (stream is None) == (partition is None):
        raise Unauthorized("the token is not valid: its read_url claim must name either a stream or a partition")
    return Identity(
        client_id=_given(claims.client_id),
        subject=_subject(claims.sub),
        read_url=ReadUrl(stream, None if partition is None else normalize("NFC", partition)),
        expires_at_s=claims.exp,
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
