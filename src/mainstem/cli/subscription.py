"""`mainstem subscription`: manage and operate subscriptions, and do the work of a pull-wake worker."""

import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import click
import msgspec

from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.lazy import CommandGroup
from mainstem.streams.rules.paths import RESERVED

if TYPE_CHECKING:
    from mainstem.client import Response


@click.group(cls=CommandGroup)
def subscription() -> None:
    """Manage subscriptions, and process their wakes.

    A webhook subscription calls a URL. A pull-wake subscription writes wakes to a stream, and workers claim them.
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
    """Send a request about subscriptions. `token` is that of a claim, and replaces the user's own."""
    from mainstem.client import Unauthorized

    content = b"" if body is None else msgspec.json.encode(body)
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    target = f"{address.stream_prefix}/{RESERVED}/{path}"
    with connect(address) as streams:
        try:
            return streams.request(method, target, body=content, headers=headers, safe=safe)
        except Unauthorized:
            if token is None:
                raise
            raise Failure(
                "the server rejected the token of the claim: claim the wake again with `mainstem subscription claim`, "
                "and pass its token with --claim-token",
                ExitCode.DENIED,
            ) from None


def target(name: str, action: str = "") -> str:
    return f"subscriptions/{quote(name, safe='')}{action}"


@subscription.command()
@click.argument("name")
@click.option("--webhook", metavar="URL", help="Call this URL when a stream has new data.")
@click.option("--wake-stream", metavar="PATH", help="Write wakes to this stream instead, for workers to claim.")
@click.option("--pattern", metavar="GLOB", help="Subscribe to the streams that match this glob.")
@click.option("--stream", "streams", metavar="PATH", multiple=True, help="Subscribe to this stream; repeatable.")
@click.option(
    "--lease-ms", type=int, default=30_000, show_default=True, help="How long a worker may take until it acknowledges."
)
@click.option("--description", help="Text for people.")
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
    """Create the subscription NAME, unless it exists with the same configuration."""
    if (webhook is None) == (wake_stream is None):
        raise click.UsageError("give either --webhook or --wake-stream")
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
        output.write_line(f"created {name}" if reply.status == 201 else f"{name} already exists")


@subscription.command()
@click.argument("prefix", default="")
@options.server
def ls(prefix: str, address: Address, as_json: bool) -> None:
    """List the subscriptions whose names begin with PREFIX.

    If the server requires tokens, this needs one with the admin claim.
    """
    query = {"prefix": prefix, "after": ""}
    empty = True
    while True:
        with connect(address) as streams:
            page = streams.request("GET", f"/v1/subscriptions?{urlencode(query)}").json()
        found = page["subscriptions"]
        empty = empty and not found
        if as_json:
            for item in found:
                output.write_json(item)
        elif found:
            output.write_table(("NAME", "STREAMS", "WAKES", "STATUS"), [_row(item) for item in found])
        if page["next"] is None:
            break
        query["after"] = page["next"]
    if empty and not as_json:
        which = f"no subscriptions begin with {prefix!r}" if prefix else "no subscriptions"
        output.note_empty(f"{which}: create one with `mainstem subscription create`")


def _row(item: dict[str, Any]) -> list[str]:
    streams = item["pattern"] or "(listed by name)"
    return [item["subscription_id"], streams, item["webhook_url"] or item["wake_stream"], item["status"]]


@subscription.command()
@click.argument("name")
@options.server
def get(name: str, address: Address, as_json: bool) -> None:
    """Describe the subscription NAME, and the acknowledged offset of each stream."""
    found = ask(address, "GET", target(name)).json()
    if as_json:
        output.write_json(found)
        return
    links = found.pop("streams")
    output.write_facts(found, as_json=False)
    if links:
        rows = [(link["path"], link["link_type"], output.show(link["acked_offset"])) for link in links]
        output.write_table(("STREAM", "LINK", "ACKNOWLEDGED"), rows)


def operate(
    address: Address, method: str, name: str, action: str = "", body: Any = None, *, safe: bool | None = None
) -> "Response":
    """Send a request for operators, which needs the admin claim if the server requires tokens."""
    content = b"" if body is None else msgspec.json.encode(body)
    with connect(address) as streams:
        return streams.request(method, f"/v1/{target(name, action)}", body=content, safe=safe)


@subscription.command()
@click.argument("name")
@options.server
def show(name: str, address: Address, as_json: bool) -> None:
    """Show the wake, lease, retries and latest failure of the subscription NAME, and the lag of each stream.

    If the server requires tokens, this needs one with the admin claim.
    """
    found = operate(address, "GET", name).json()
    if as_json:
        output.write_json(found)
        return
    cursors, truncated = found.pop("streams"), found.pop("streams_truncated")
    output.write_facts(found, as_json=False)
    if cursors:
        rows = [
            (
                cursor["path"],
                cursor["type"],
                cursor["acked_offset"],
                output.show(cursor["next_offset"]),
                output.format_bytes(cursor["lag_bytes"]),
            )
            for cursor in cursors
        ]
        output.write_table(("STREAM", "LINK", "ACKNOWLEDGED", "END", "LAG"), rows, right=("LAG",))
    if truncated:
        output.write_line("there may be more streams: those with new data are shown first")


@subscription.command()
@click.argument("name")
@options.server
def pause(name: str, address: Address, as_json: bool) -> None:
    """Send no wakes of the subscription NAME until it is resumed.

    A worker that holds the lease may finish. If the server requires tokens, this needs one with the admin claim.
    """
    operate(address, "POST", name, "/pause", safe=True)
    output.write_result({"subscription_id": name, "paused": True}, f"paused {name}", as_json)


@subscription.command()
@click.argument("name")
@options.server
def resume(name: str, address: Address, as_json: bool) -> None:
    """Send wakes of the subscription NAME again.

    If the server requires tokens, this needs one with the admin claim.
    """
    operate(address, "POST", name, "/resume", safe=True)
    output.write_result({"subscription_id": name, "paused": False}, f"resumed {name}", as_json)


@subscription.command()
@click.argument("name")
@click.option(
    "--from",
    "start",
    nargs=2,
    metavar="PATH OFFSET",
    help="First move the acknowledged offset of this stream back; -1 is its beginning.",
)
@options.server
def redeliver(name: str, start: tuple[str, str] | None, address: Address, as_json: bool) -> None:
    """End the current wake of the subscription NAME, and deliver again what was not acknowledged.

    This also ends the wait for the next attempt of a webhook. If the server requires tokens, it needs one with the
    admin claim.
    """
    body = None if start is None else {"stream": start[0], "offset": start[1]}
    operate(address, "POST", name, "/redeliver", body)
    facts = {"subscription_id": name, "redelivered": True}
    output.write_result(facts, f"{name} is delivered again from its acknowledged offsets", as_json)


@subscription.command()
@click.argument("name")
@options.server
def rm(name: str, address: Address, as_json: bool) -> None:
    """Delete the subscription NAME."""
    ask(address, "DELETE", target(name))
    output.write_result({"subscription_id": name, "deleted": True}, f"deleted {name}", as_json)


@subscription.command()
@click.argument("name")
@click.argument("streams", nargs=-1, required=True, metavar="PATH...")
@options.server
def link(name: str, streams: tuple[str, ...], address: Address, as_json: bool) -> None:
    """Add streams to the subscription NAME."""
    ask(address, "POST", target(name, "/streams"), {"streams": streams}, safe=True)
    output.write_result({"subscription_id": name, "streams": streams}, f"added {', '.join(streams)} to {name}", as_json)


@subscription.command()
@click.argument("name")
@click.argument("path")
@options.server
def unlink(name: str, path: str, address: Address, as_json: bool) -> None:
    """Remove a stream from the subscription NAME."""
    ask(address, "DELETE", target(name, f"/streams/{quote(path)}"))
    output.write_result({"subscription_id": name, "removed": path}, f"removed {path} from {name}", as_json)


@subscription.command()
@click.argument("name")
@click.option("--worker", help="Name of the worker.  [default: this host and process]")
@options.server
def claim(name: str, worker: str | None, address: Address, as_json: bool) -> None:
    """Claim the pending wake of the pull-wake subscription NAME.

    Print the values that `ack` and `release` need, and the streams with new data.
    """
    worker = worker or f"{socket.gethostname()}-{os.getppid()}"
    found = ask(address, "POST", target(name, "/claim"), {"worker": worker}).json()
    if as_json:
        output.write_json(found)
        return
    streams = found.pop("streams")
    output.write_facts(found, as_json=False)
    if streams:
        rows = [(item["path"], output.show(item["acked_offset"]), item["tail_offset"]) for item in streams]
        output.write_table(("STREAM", "ACKNOWLEDGED", "END"), rows)


def of_claim(function: Any) -> Any:
    """Add the options for the values of a claim."""
    for option in (
        click.option("--claim-token", metavar="TOKEN", required=True, help="token of the claim."),
        click.option("--generation", type=int, required=True, help="generation of the claim."),
        click.option("--wake", "wake_id", metavar="ID", required=True, help="wake_id of the claim."),
    ):
        function = option(function)
    return function


@subscription.command()
@click.argument("name")
@of_claim
@click.option(
    "--offset",
    "offsets",
    nargs=2,
    multiple=True,
    metavar="PATH OFFSET",
    help="Offset up to which a stream is processed; repeatable.",
)
@click.option("--done", is_flag=True, help="End the wake, because the work is done.")
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
    """Acknowledge the progress of a claim, which extends its lease."""
    acks = [{"stream": path, "offset": offset} for path, offset in offsets]
    wake = {"wake_id": wake_id, "generation": generation, "acks": acks, "done": done}
    found = ask(address, "POST", target(name, "/ack"), wake, token=claim_token, safe=True).json()
    more = "more work is waiting" if found.get("next_wake") else "no more work is waiting"
    output.write_result(found, f"acknowledged; {more}", as_json)


@subscription.command()
@click.argument("name")
@of_claim
@options.server
def release(name: str, wake_id: str, generation: int, claim_token: str, address: Address, as_json: bool) -> None:
    """Release a claim, so that another worker can take it."""
    wake = {"wake_id": wake_id, "generation": generation}
    ask(address, "POST", target(name, "/release"), wake, token=claim_token)
    output.write_result({"subscription_id": name, "released": True}, f"released {name}", as_json)


@subscription.command()
@options.server
def keys(address: Address, as_json: bool) -> None:
    """Show the public keys with which the server signs webhook calls."""
    found = ask(address, "GET", "jwks.json").json()
    if as_json:
        output.write_json(found)
    else:
        rows = [(output.show(key.get("kid")), output.show(key.get("alg") or key.get("crv"))) for key in found["keys"]]
        output.write_table(("KEY ID", "ALGORITHM"), rows)
