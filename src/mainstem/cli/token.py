"""`mainstem token`: create secrets, tokens for development, and signed URLs."""

import os
import re
import secrets
import time
from typing import Any

import click

DURATION = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)")
UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


TOKEN_LIFETIME_S = UNIT_S["h"]

SECRET_FILE = "--secret-file, the secret file of the server (`mainstem token --new-secret FILE` makes one)"
CLIENT_ID = "--client-id, the name of its holder"


def parse_duration_s(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    match = DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter("give a whole number and a unit, such as 90s, 15m, 1h or 30d")
    return int(match[1]) * UNIT_S[match[2]]


@click.command()
@click.option("--new-secret", metavar="FILE", help="Write a new secret to this new file, and print no token.")
@click.option("--secret-file", metavar="FILE", help="The secret file of the server (its --jwt-secret-file).")
@click.option("--url", help="Print this URL of a stream or partition with a signature, instead of a token.")
@click.option("--stream-prefix", help="With --url: the --stream-prefix of the server.  [default: /v1/stream]")
@click.option("--client-id", help="The client that the token is for; required for a token.")
@click.option("--partition", multiple=True, help="Allow this partition; repeatable.")
@click.option("--partition-prefix", multiple=True, help="Allow partitions that begin with this; repeatable.")
@click.option("--read", metavar="GLOB", multiple=True, help="Allow reading these streams; repeatable.")
@click.option("--write", metavar="GLOB", multiple=True, help="Allow writing these streams; repeatable.")
@click.option("--metrics", is_flag=True, help="Allow reading /metrics.")
@click.option("--sign-urls", is_flag=True, help="Allow signing URLs of what the token may read.")
@click.option("--admin", is_flag=True, help="Allow everything.")
@click.option("--issuer", help="Issuer, for a server with --jwt-issuer.")
@click.option("--audience", help="Audience, for a server with --jwt-audience.")
@click.option(
    "--expires-in",
    callback=parse_duration_s,
    help="Lifetime, such as 90s, 15m, 1h or 30d.  [default: 1h; with --url 5m, and at most 1h]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def token(
    new_secret: str | None,
    secret_file: str | None,
    url: str | None,
    stream_prefix: str | None,
    client_id: str | None,
    as_json: bool,
    **grants: Any,
) -> None:
    """Print a token that is signed with the secret file of a server, or a signed URL.

    Tokens are for development. In production your own issuer signs them: see `mainstem serve --jwks`. With --url, print
    a URL with which anybody can read one stream or partition, for a short time.
    """
    from mainstem.errors import BadRequest, SettingsError, Unauthorized

    if new_secret is not None:
        if secret_file is not None or client_id is not None or url is not None:
            raise click.UsageError(
                "--new-secret prints no token: create the secret first, and then a token with --secret-file"
            )
        write_secret(new_secret)
        show({"secret_file": new_secret}, f"wrote a new secret to {new_secret}", as_json)
        return
    if url is not None:
        if secret_file is None:
            raise click.UsageError("a signed URL needs --secret-file")
        if any(grants[name] for name in GRANTS):
            raise click.UsageError("a signed URL allows reading what it names, and nothing else: leave out the grants")
        try:
            signed = make_url(secret_file, url, stream_prefix, client_id, **grants)
        except (BadRequest, SettingsError) as error:
            raise click.UsageError(error.detail) from None
        show(signed, signed["url"], as_json)
        return
    if stream_prefix is not None:
        raise click.UsageError("--stream-prefix has no effect without --url")
    if secret_file is None or client_id is None:
        missing = [*([] if secret_file else [SECRET_FILE]), *([] if client_id else [CLIENT_ID])]
        raise click.UsageError(f"a token needs {' and '.join(missing)}")
    try:
        made = make_token(secret_file, client_id, **grants)
    except (SettingsError, Unauthorized) as error:
        raise click.UsageError(error.detail) from None
    show(made, made["token"], as_json)


GRANTS = ("partition", "partition_prefix", "read", "write", "metrics", "sign_urls", "admin")


def make_url(
    secret_file: str, url: str, stream_prefix: str | None, client_id: str | None, **options: Any
) -> dict[str, Any]:
    from mainstem import limits
    from mainstem.server.auth import keys
    from mainstem.signed_urls import sign_url
    from mainstem.streams.rules import paths

    expires_in_s = options["expires_in"] or limits.SIGNED_URL_S
    secret = keys.read_secret(secret_file)
    expires_at_s = int(time.time()) + expires_in_s
    signed = sign_url(
        url,
        secret,
        expires_in_s=expires_in_s,
        issuer=options["issuer"],
        audience=options["audience"],
        client_id=client_id,
        stream_prefix=stream_prefix or paths.PREFIX,
    )
    return {"url": signed, "expires_at": expires_at_s}


def make_token(
    secret_file: str,
    client_id: str,
    *,
    partition: tuple[str, ...],
    partition_prefix: tuple[str, ...],
    read: tuple[str, ...],
    write: tuple[str, ...],
    metrics: bool,
    sign_urls: bool,
    admin: bool,
    issuer: str | None,
    audience: str | None,
    expires_in: int | None,
) -> dict[str, Any]:
    # Imported here because other commands import this module too.
    import msgspec
    from msgspec import UNSET

    from mainstem.server.auth import keys
    from mainstem.server.auth.claims import Claims, StreamGrants, grant, parse_claims
    from mainstem.signed_urls import sign_with_secret

    expires_at_s = (now_s := int(time.time())) + (expires_in or TOKEN_LIFETIME_S)
    claims = Claims(
        client_id=client_id,
        metrics=metrics,
        sign_urls=sign_urls,
        admin=admin,
        allowed_partitions=partition,
        allowed_partition_prefixes=partition_prefix,
        streams=StreamGrants(read, write),
        iss=issuer or UNSET,
        aud=audience or UNSET,
        iat=now_s,
        exp=expires_at_s,
    )
    payload = msgspec.json.encode(claims)
    grant(parse_claims(payload))  # refuse here what the server would refuse
    signed = sign_with_secret(payload, keys.read_secret(secret_file))
    return {"token": signed, "client_id": client_id, "expires_at": expires_at_s}


def write_secret(path: str) -> None:
    """Write a secret that only its owner can read. Never overwrite a file: tokens depend on it."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise click.UsageError(f"cannot create {path}: {error.strerror}") from None
    with os.fdopen(file, "w") as secret_file:
        secret_file.write(secrets.token_urlsafe(48) + "\n")


def show(facts: dict[str, Any], text: str, as_json: bool) -> None:
    import msgspec

    click.echo(msgspec.json.encode(facts) if as_json else text)
