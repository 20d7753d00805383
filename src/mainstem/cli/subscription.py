"""`mainstem subscription`: who is told when streams get new data, and the work of those who are told."""

import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import click
import msgspec

from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.streams.rules.paths import RESERVED

if TYPE_CHECKING:
    from mainstem.client import Response


@click.group()
def subscription() -> None:
    """Manage subscriptions, and work off their wakes.

    A webhook subscription calls a URL; a pull-wake one writes into a stream, and workers claim what is to be done.
    """


def ask(
    address: Address,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    safe: bool | None = None,
) -> "Response":
    content = b"" if body is None else msgspec.json.encode(body)
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with connect(address) as streams:
        return streams.request(
            method, f"{address.stream_prefix}/{RESERVED}/{path}", body=content, headers=headers, safe=safe
        )


def target(name: str, action: str = "") -> str:
    return f"subscriptions/{quote(name, safe='')}{action}"


@subscription.command()
@click.argument("name")
@click.option("--webhook", metavar="URL", help="Call this URL when there is something new.")
@click.option("--wake-stream", metavar="PATH", help="Or write a wake into this stream, for workers that claim.")
@click.option("--pattern", metavar="GLOB", help="The streams that it is about.")
@click.option("--stream", "streams", metavar="PATH", multiple=True, help="A stream that it is about; may be repeated.")
@click.option("--lease-ms", type=int, default=30_000, show_default=True, help="How long a worker has until its ack.")
@click.option("--description", help="Free text.")
@options.server
def create(
    name: str,
    webhook: str | None,
    wake_stream: str | None,
    pattern: str | None,
    streams: tuple[str, ...],
    lease_ms: int,
    description: str | None,
    address: Address,
    as_json: bool,
) -> None:
    """Make the subscription NAME. One that is there just so is left as it is."""
    if (webhook is None) == (wake_stream is None):
        raise click.UsageError("give --webhook or --wake-stream, one of them")
    config = {
        "type": "pull-wake" if webhook is None else "webhook",
        "pattern": pattern,
        "streams": streams,
        "webhook": None if webhook is None else {"url": webhook},
        "wake_stream": wake_stream,
        "lease_ttl_ms": lease_ms,
        "description": description,
    }
    reply = ask(address, "PUT", target(name), {key: value for key, value in config.items() if value is not None})
    if as_json:
        output.write_json(reply.json())
    else:
        output.write_line(f"{name} {'is made' if reply.status == 201 else 'is there already'}")


@subscription.command()
@click.argument("prefix", default="")
@options.server
def ls(prefix: str, address: Address, as_json: bool) -> None:
    """List subscriptions whose names begin with PREFIX; it needs an admin's token."""
    query = {"prefix": prefix, "after": ""}
    while True:
        with connect(address) as streams:
            page = streams.request("GET", f"/v1/subscriptions?{urlencode(query)}").json()
        for found in page["subscriptions"]:
            if as_json:
                output.write_json(found)
            else:
                about, to = found["pattern"] or "its own streams", found["webhook_url"] or found["wake_stream"]
                output.write_line(f"{found['subscription_id']}  {about} -> {to}  {found['status']}")
        if page["next"] is None:
            return
        query["after"] = page["next"]


@subscription.command()
@click.argument("name")
@options.server
def get(name: str, address: Address, as_json: bool) -> None:
    """Describe the subscription NAME: what it is about, and how far each stream was processed."""
    found = ask(address, "GET", target(name)).json()
    if as_json:
        output.write_json(found)
        return
    links = found.pop("streams")
    output.write_facts(found, as_json=False)
    output.write_rows([("stream", link["path"], link["link_type"], link["acked_offset"]) for link in links])


@subscription.command()
@click.argument("name")
@options.server
def rm(name: str, address: Address, as_json: bool) -> None:
    """Delete the subscription NAME."""
    ask(address, "DELETE", target(name))
    output.write_result({"subscription_id": name, "deleted": True}, f"{name} is deleted", as_json)


@subscription.command()
@click.argument("name")
@click.argument("streams", nargs=-1, required=True, metavar="PATH...")
@options.server
def link(name: str, streams: tuple[str, ...], address: Address, as_json: bool) -> None:
    """Add streams to the subscription NAME."""
    ask(address, "POST", target(name, "/streams"), {"streams": streams}, safe=True)
    output.write_result({"subscription_id": name, "streams": streams}, f"{name} is about {', '.join(streams)}", as_json)


@subscription.command()
@click.argument("name")
@click.argument("path")
@options.server
def unlink(name: str, path: str, address: Address, as_json: bool) -> None:
    """Remove a stream from the subscription NAME."""
    ask(address, "DELETE", target(name, f"/streams/{quote(path)}"))
    output.write_result({"subscription_id": name, "removed": path}, f"{name} is not about {path} any more", as_json)


@subscription.command()
@click.argument("name")
@click.option("--worker", help="Who takes the work.  [default: this machine and process]")
@options.server
def claim(name: str, worker: str | None, address: Address, as_json: bool) -> None:
    """Take the pending work of the pull-wake subscription NAME.

    Prints what `ack` and `release` need, and the streams with something new.
    """
    worker = worker or f"{socket.gethostname()}-{os.getppid()}"
    found = ask(address, "POST", target(name, "/claim"), {"worker": worker}).json()
    if as_json:
        output.write_json(found)
        return
    streams = found.pop("streams")
    output.write_facts(found, as_json=False)
    rows = [("stream", item["path"], item["acked_offset"], item["tail_offset"]) for item in streams]
    output.write_rows(rows)


def of_claim(function: Any) -> Any:
    """What a claim gave."""
    for option in (
        click.option("--claim-token", metavar="TOKEN", required=True, help="The token of the claim."),
        click.option("--generation", type=int, required=True, help="The generation of the claim."),
        click.option("--wake", "wake_id", metavar="ID", required=True, help="The wake_id of the claim."),
    ):
        function = option(function)
    return function


@subscription.command()
@click.argument("name")
@of_claim
@click.option(
    "--offset", "offsets", nargs=2, multiple=True, metavar="PATH OFFSET", help="Processed so far; may be repeated."
)
@click.option("--done", is_flag=True, help="End the wake: the work is done.")
@options.server
def ack(
    name: str,
    wake_id: str,
    generation: int,
    claim_token: str,
    offsets: tuple[tuple[str, str], ...],
    done: bool,
    address: Address,
    as_json: bool,
) -> None:
    """Say how far the work of a claim has come; this also extends its lease."""
    acks = [{"stream": path, "offset": offset} for path, offset in offsets]
    wake = {"wake_id": wake_id, "generation": generation, "acks": acks, "done": done}
    found = ask(address, "POST", target(name, "/ack"), wake, token=claim_token, safe=True).json()
    more = "more work waits" if found.get("next_wake") else "nothing more waits"
    output.write_result(found, f"acknowledged; {more}", as_json)


@subscription.command()
@click.argument("name")
@of_claim
@options.server
def release(name: str, wake_id: str, generation: int, claim_token: str, address: Address, as_json: bool) -> None:
    """Give a claim back, so that another worker can take it."""
    wake = {"wake_id": wake_id, "generation": generation}
    ask(address, "POST", target(name, "/release"), wake, token=claim_token)
    output.write_result({"subscription_id": name, "released": True}, f"{name} is released", as_json)


@subscription.command()
@options.server
def keys(address: Address, as_json: bool) -> None:
    """Show the public keys that webhook calls are signed with."""
    found = ask(address, "GET", "jwks.json").json()
    if as_json:
        output.write_json(found)
    else:
        output.write_rows([(key.get("kid"), key.get("alg") or key.get("crv")) for key in found["keys"]])
