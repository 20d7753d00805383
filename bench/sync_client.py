"""The offline-first client: opening a large store, and committing the drafts that were written offline.

The scenario fills a store; `python -m bench.sync_client` opens it in its own process, like an application.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.formats import format_number
from bench.generator import LoadFailed
from bench.load_jobs import Figures
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server
from mainstem.client.offline import Event, OfflineClient, SqliteClientStore
from mainstem.client.offline.core.records import Committed, StoreUpdate
from mainstem.client.offline.views import View, Views

EVENTS = 100_000
PAGE = 700  # so that the last stored view is not the last event
DRAFTS = 10_000
ROOMS = 100
LIMIT_S = 120.0
CLIENT = "bench"
NOWHERE = "ws://127.0.0.1:9/v1/sync"


def count_rooms(state: dict[str, int], event: Event) -> dict[str, int]:
    """Count the events of each room: a view whose state is not tiny."""
    room = str(event.event["room"])
    state[room] = state.get(room, 0) + 1
    return state


def make_event(number: int) -> dict[str, Any]:
    return {"room": f"room-{number % ROOMS}", "number": number, "text": "x" * 60}


def fill_store(path: Path, events: int) -> None:
    """Fill a store as a client does over a long time: events in pages, and a view that is stored now and then."""
    store = SqliteClientStore(path)
    store.open(CLIENT)
    store.follow(["p"])
    views = Views(store, CLIENT)
    views.register(View("rooms", count_rooms, b"{}", None, 1, None))
    for first in range(1, events + 1, PAGE):
        numbers = range(first, min(first + PAGE, events + 1))
        page = tuple(
            Committed(number, f"event-{number}", "other", ("p",), json.dumps(make_event(number)).encode(), "")
            for number in numbers
        )
        store.apply([StoreUpdate(events=page, cursor=numbers[-1])])
        views.store_checkpoints()
    store.close()


async def open_store(path: Path) -> Figures:
    """Measure the time to open a store and compute a view of all events, without a server."""
    started = time.perf_counter()
    async with OfflineClient(NOWHERE, client_id=CLIENT, store=path) as client:
        opened_s = time.perf_counter() - started
        client.register_view("rooms", count_rooms, {})
        state = await client.view("rooms")
        viewed_s = time.perf_counter() - started
    return {"open_s": opened_s, "view_s": viewed_s, "events": float(sum(state.values()))}


async def drain(url: str, path: Path) -> Figures:
    """Write drafts without a server, then open the same store with one, and wait until all are committed."""
    started = time.perf_counter()
    async with OfflineClient(NOWHERE, client_id=CLIENT, store=path, partitions=["drain"]) as client:
        await asyncio.gather(*(client.submit(["drain"], make_event(number)) for number in range(DRAFTS)))
    submitted_s = time.perf_counter() - started
    started = time.perf_counter()
    async with OfflineClient(url, client_id=CLIENT, store=path) as client, asyncio.timeout(LIMIT_S):
        await client.synced()
    return {"submits_per_s": DRAFTS / submitted_s, "commits_per_s": DRAFTS / (time.perf_counter() - started)}


def run_apart(*arguments: str) -> Figures:
    command = [sys.executable, "-m", "bench.sync_client", *arguments]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip())
    figures: Figures = json.loads(done.stdout)
    return figures


def measure_client(server: Server, pace: Pace) -> list[Measurement]:
    events = int(EVENTS * pace.fill)
    fill_store(server.folder / "open.db", events)
    opened = run_apart("open", str(server.folder / "open.db"))
    if opened["events"] != events:
        raise LoadFailed(f"the view counts {opened['events']:.0f} events of {events}")
    drained = run_apart("drain", f"http://127.0.0.1:{server.port}", str(server.folder / "drain.db"))
    title = f"offline client, {format_number(DRAFTS)} drafts"
    return [
        Measurement(
            "sync-client-open",
            f"offline client, open {format_number(events)} events with a view",
            opened["view_s"],
            "s",
            "less",
            opened,
        ),
        Measurement(
            "sync-client-submit", f"{title} stored offline", drained["submits_per_s"], "drafts/s", details=drained
        ),
        Measurement("sync-client-drain", f"{title} committed", drained["commits_per_s"], "drafts/s", details=drained),
    ]


SYNC_CLIENT_SCENARIOS = [Scenario("sync-client", measure_client, ours_only=True)]


def main() -> None:
    match sys.argv[1:]:
        case ["open", path]:
            figures = asyncio.run(open_store(Path(path)))
        case ["drain", url, path]:
            figures = asyncio.run(drain(url, Path(path)))
        case _:
            sys.exit("usage: python -m bench.sync_client open PATH | drain URL PATH")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
