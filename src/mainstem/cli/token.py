"""`mainstem token`: secrets and tokens for development."""

import os
import re
import secrets
import time
from typing import Any

import click

DURATION = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)")
UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration_s(context: click.Context, parameter: click.Parameter, text: str) -> int:
    match = DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter("use a whole number and a unit, as 90s, 15m, 1h or 30d")
    return int(match[1]) * UNIT_S[match[2]]


@click.command()
@click.option("--new-secret", metavar="FILE", help="Write a fresh secret to a new file, and make no token.")
@click.option("--secret-file", metavar="FILE", help="The secret that the server has as --jwt-secret-file.")
@click.option("--client-id", help="Who the token is for.")
@click.option("--partition", multiple=True, help="A partition that may be used; may be repeated.")
@click.option("--partition-prefix", multiple=True, help="The beginning of such partitions; may be repeated.")
@click.option("--read", metavar="GLOB", multiple=True, help="Streams that may be read; may be repeated.")
@click.option("--write", metavar="GLOB", multiple=True, help="Streams that may be written; may be repeated.")
@click.option("--admin", is_flag=True, help="Allow everything.")
@click.option("--issuer", help="The issuer, for a server with --jwt-issuer.")
@click.option("--audience", help="The audience, for a server with --jwt-audience.")
@click.option("--expires-in", callback=parse_duration_s, default="1h", show_default=True, help="As 90s, 15m, 1h, 30d.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def token(new_secret: str | None, secret_file: str | None, client_id: str | None, as_json: bool, **grants: Any) -> None:
    """Print a token for a server with --jwt-secret-file, signed with the same secret.

    A token in production comes from your own issuer: see --jwks.
    """
    from mainstem.errors import SettingsError, Unauthorized

    if new_secret is not None:
        if secret_file is not None or client_id is not None:
            raise click.UsageError("--new-secret makes no token; ask for one afterwards, with --secret-file")
        write_secret(new_secret)
        show({"secret_file": new_secret}, f"A new secret is in {new_secret}", as_json)
        return
    if secret_file is None or client_id is None:
        raise click.UsageError("a token needs --secret-file and --client-id")
    try:
        made = make_token(secret_file, client_id, **grants)
    except (SettingsError, Unauthorized) as error:
        raise click.UsageError(error.detail) from None
    show(made, made["token"], as_json)


def make_token(
    secret_file: str,
    client_id: str,
    *,
    partition: tuple[str, ...],
    partition_prefix: tuple[str, ...],
    read: tuple[str, ...],
    write: tuple[str, ...],
    admin: bool,
    issuer: str | None,
    audience: str | None,
    expires_in: int,
) -> dict[str, Any]:
    # Imported here, so that the other commands start without them.
    import msgspec
    from msgspec import UNSET

    from mainstem.server.auth import keys
    from mainstem.server.auth.claims import Claims, StreamGrants, grant, parse_claims

    now_s = int(time.time())
    claims = Claims(
        client_id=client_id,
        admin=admin,
        allowed_partitions=partition,
        allowed_partition_prefixes=partition_prefix,
        streams=StreamGrants(read, write),
        iss=issuer or UNSET,
        aud=audience or UNSET,
        iat=now_s,
        exp=now_s + expires_in,
    )
    payload = msgspec.json.encode(claims)
    grant(parse_claims(payload))  # what the server would refuse is refused here already
    signed = keys.sign_with_secret(payload, keys.read_secret(secret_file))
    return {"token": signed, "client_id": client_id, "expires_at": now_s + expires_in}


def write_secret(path: str) -> None:
    """A secret that only its owner may read. A file that is there is never overwritten: tokens depend on it."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise click.UsageError(f"cannot make {path}: {error.strerror}") from None
    with os.fdopen(file, "w") as secret_file:
        secret_file.write(secrets.token_urlsafe(48) + "\n")


def show(facts: dict[str, Any], text: str, as_json: bool) -> None:
    import msgspec

    click.echo(msgspec.json.encode(facts) if as_json else text)
