"""`mainstem token`: create secrets and tokens for development."""

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
        raise click.BadParameter("give a whole number and a unit, such as 90s, 15m, 1h or 30d")
    return int(match[1]) * UNIT_S[match[2]]


@click.command()
@click.option("--new-secret", metavar="FILE", help="Write a new secret to this new file, and print no token.")
@click.option("--secret-file", metavar="FILE", help="The secret file of the server (its --jwt-secret-file).")
@click.option("--client-id", help="The client that the token is for.")
@click.option("--partition", multiple=True, help="Allow this partition; repeatable.")
@click.option("--partition-prefix", multiple=True, help="Allow partitions that begin with this; repeatable.")
@click.option("--read", metavar="GLOB", multiple=True, help="Allow reading these streams; repeatable.")
@click.option("--write", metavar="GLOB", multiple=True, help="Allow writing these streams; repeatable.")
@click.option("--metrics", is_flag=True, help="Allow reading /metrics.")
@click.option("--admin", is_flag=True, help="Allow everything.")
@click.option("--issuer", help="Issuer, for a server with --jwt-issuer.")
@click.option("--audience", help="Audience, for a server with --jwt-audience.")
@click.option(
    "--expires-in",
    callback=parse_duration_s,
    default="1h",
    show_default=True,
    help="Lifetime, such as 90s, 15m, 1h or 30d.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def token(new_secret: str | None, secret_file: str | None, client_id: str | None, as_json: bool, **grants: Any) -> None:
    """Print a token that is signed with the secret file of a server.

    It is for development. In production your own issuer signs tokens: see `mainstem serve --jwks`.
    """
    from mainstem.errors import SettingsError, Unauthorized

    if new_secret is not None:
        if secret_file is not None or client_id is not None:
            raise click.UsageError(
                "--new-secret prints no token: create the secret first, and then a token with --secret-file"
            )
        write_secret(new_secret)
        show({"secret_file": new_secret}, f"wrote a new secret to {new_secret}", as_json)
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
    metrics: bool,
    admin: bool,
    issuer: str | None,
    audience: str | None,
    expires_in: int,
) -> dict[str, Any]:
    # Imported here because other commands import this module too.
    import msgspec
    from msgspec import UNSET

    from mainstem.server.auth import keys
    from mainstem.server.auth.claims import Claims, StreamGrants, grant, parse_claims

    now_s = int(time.time())
    claims = Claims(
        client_id=client_id,
        metrics=metrics,
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
    grant(parse_claims(payload))  # refuse here what the server would refuse
    signed = keys.sign_with_secret(payload, keys.read_secret(secret_file))
    return {"token": signed, "client_id": client_id, "expires_at": now_s + expires_in}


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
