"""`python -m bench.snapshot_workload PORT FOLDER EVENTS`: fill a server with keyed events, and fold them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from bench.load_jobs import Figures, encode_figures
from bench.wire import HOST
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.runner import run_once
from mainstem.pipeline.jobs.snapshot.job import SnapshotOptions, SnapshotSummary, make_snapshot
from mainstem.pipeline.jobs.snapshot.reducers import make_reducer
from mainstem.pipeline.jobs.targets import TargetSelector

MASTER = "local[2]"
PARTITIONS = 10
KEYS = 10_000
BATCH = 100
IN_FLIGHT = 2
TEXT = "x" * 60
TIMES = 3


def fill(port: int, events: int) -> None:
    """Submit events of about 100 bytes. Each key belongs to one partition, and all keys are equally frequent."""
    with connect(f"ws://{HOST}:{port}/v1/sync", proxy=None, compression=None, max_size=None) as socket:
        say(socket, "connect", {"client_id": "filler"})
        socket.recv()
        waiting = 0
        for first in range(0, events, BATCH):
            say(socket, "submit_events", {"events": [draft(n) for n in range(first, min(first + BATCH, events))]})
            waiting += 1
            if waiting == IN_FLIGHT:
                check(socket)
                waiting -= 1
        for _ in range(waiting):
            check(socket)


def draft(number: int) -> dict[str, object]:
    key = number * 7919 % KEYS  # 7919 is prime, so neighbours differ and every key is used
    event = {"key": f"key-{key}", "value": {"n": number, "text": TEXT}}
    return {"id": f"e{number}", "partitions": [f"room-{key % PARTITIONS}"], "event": event}


def say(socket: Connection, type_: str, payload: dict[str, object]) -> None:
    message = {"type": type_, "protocol_version": "1.0", "payload": payload}
    socket.send(msgspec.json.encode(message), text=True)


def check(socket: Connection) -> None:
    reply = msgspec.json.decode(socket.recv())
    if any(result["status"] != "committed" for result in reply["payload"]["results"]):
        raise SystemExit(f"the fill was refused: {reply}")


def measure(port: int, folder: Path, events: int) -> Figures:
    """Fold the whole log several times: all but the last are dry runs, and the last stores the snapshots."""
    fill(port, events)
    context = JobContext(ServerOptions(f"http://{HOST}:{port}"), folder, master=MASTER, dry_run=True)
    started = time.perf_counter()
    _ = context.spark
    figures: Figures = {"session_s": time.perf_counter() - started}
    job = make_snapshot(SnapshotOptions(TargetSelector(("room-*",)), make_reducer("lww", ["key"], "value")))
    seconds, found = [], SnapshotSummary(job="snapshot")
    for number in range(TIMES):
        context.dry_run = number < TIMES - 1
        summary = run_once(job, context)
        assert isinstance(summary, SnapshotSummary)
        found = summary
        if found.faults or found.rows != events or found.partitions != PARTITIONS:
            raise SystemExit(f"the snapshot is incomplete: {found}")
        seconds.append(found.seconds)
    context.spark.stop()
    figures |= {"cold_s": seconds[0], "seconds": min(seconds[1:]), "put_s": seconds[-1], "state_mb": found.bytes / 1e6}
    return figures


if __name__ == "__main__":
    print(encode_figures(measure(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
