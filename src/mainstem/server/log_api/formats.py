"""Rows as bytes: an Arrow IPC stream for programs, NDJSON for people."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mainstem import limits
from mainstem.server.log_api.arrow import encode_arrow
from mainstem.server.log_api.rows import Rows
from mainstem.server.log_api.selection import COLUMNS
from mainstem.streams.rules.json_mode import JSON
from mainstem.streams.rules.offsets import Offset
from mainstem.timestamps import format_time_exactly

ARROW: Final = "application/vnd.apache.arrow.stream"
NDJSON: Final = "application/x-ndjson"

Body = bytes | bytearray | memoryview
"""An encoded page, in the memory into which it was written."""


def encode_rows(rows: Rows, format_: str, columns: Sequence[str]) -> Body:
    return encode_arrow(rows, columns) if format_ == ARROW else encode_ndjson(rows, columns)


# NDJSON


def encode_ndjson(rows: Rows, columns: Sequence[str] = COLUMNS) -> bytes:
    """Return one object per line. `data` is a string, to keep the exact bytes; what is not UTF-8 is `data_base64`."""
    wanted = set(columns)
    step = limits.LOG_LINES_AT_ONCE
    return b"".join(
        _lines.encode_lines([_as_dict(rows, row, wanted) for row in range(first, min(first + step, len(rows)))])
        for first in range(0, len(rows), step)
    )


_lines = msgspec.json.Encoder()


def _as_dict(rows: Rows, row: int, wanted: set[str]) -> dict[str, Any]:
    record = rows.record[row]
    topic, event = rows.topic[record], rows.is_event[record]
    about = None if event else rows.names[topic]
    data = rows.data[row]
    values = {
        "committed_id": rows.committed_id[record],
        "position": rows.position[row],
        "kind": "event" if event else "stream",
        "stream": None if about is None else about.path,
        "offset": None if about is None else str(Offset(about.read_seq, rows.start[row])),
        "producer_id": None if event else rows.source[record],
        "partitions": rows.partitions[record],
        "id": rows.id[record],
        "client_id": rows.source[record] if event else None,
        "content_type": JSON if about is None else about.content_type,
        "committed_at": format_time_exactly(rows.committed_at_us[record]),
    }
    values = {name: value for name, value in values.items() if name in wanted}
    if "data" in wanted:
        try:
            values["data"] = data.decode()
        except UnicodeDecodeError:
            values["data_base64"] = b64encode(data).decode()
    return values
