"""Finds the committed id that separates older from younger rows, with a few small requests."""

from __future__ import annotations

import msgspec

from mainstem.pipeline.http_client import HttpClient
from mainstem.timestamps import parse_time


def find_older(client: HttpClient, before_us: int, head: int) -> int:
    """Return the id of the newest row that was committed before a time; 0 if there is none.

    This bisects the log. If the clock of the server was ever set back, several ids separate older from younger rows,
    and the result is one of them.
    """
    low, high = 0, head
    while low < high:
        middle = (low + high) // 2
        row = _read_first(client, middle, high)
        if row is None or row[1] >= before_us:
            high = middle
        else:
            low = row[0]
    return low


def _read_first(client: HttpClient, after: int, until: int) -> tuple[int, int] | None:
    """Return the id and the time of the first row of a range."""
    position = "0"
    columns = ("columns", "committed_id,committed_at")
    while after < until:
        query = [("after", str(after)), ("position", position), ("until", str(until)), ("max_bytes", "1"), columns]
        reply = client.request("GET", "/v1/log", query=query, headers={"Accept": "application/x-ndjson"})
        if reply.body:
            row = msgspec.json.decode(reply.body.split(b"\n", 1)[0])
            return row["committed_id"], parse_time(row["committed_at"])
        after, position = int(reply.headers["Log-Next"]), reply.headers.get("Log-Position") or "0"
    return None
