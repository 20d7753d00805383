"""Records of the log, put together again from the rows of an archive, for `mainstem repair`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.pipeline.lake.archive_table import open_archive
from mainstem.streams.commands.create import CreateDescription
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset
from mainstem.sync.protocol.messages import encode_stored

Row = dict[str, Any]
decode_description = msgspec.json.Decoder(CreateDescription).decode


class ArchivedRecords:
    """The appends and events in an archive. It has no other records, such as those that create or close a stream."""

    def __init__(self, location: str) -> None:
        self._rows = open_archive(location).load().to_pyarrow_dataset()
        self._topics: dict[tuple[str, int], TopicId] = {}

    def note(self, record: Record) -> None:
        """Remember which topic a stream is: an archive has only its path."""
        if record.kind is Kind.CREATE:
            about = decode_description(record.data)
            self._topics[about.path, about.read_seq] = record.topic

    def find_records(self, first: int, last: int) -> Iterator[Record]:
        wanted = (ds.field("committed_id") >= first) & (ds.field("committed_id") <= last)
        rows = self._rows.to_table(filter=wanted).sort_by([("committed_id", "ascending"), ("position", "ascending")])
        times = rows.column("committed_at").cast(pa.int64()).to_pylist()
        found = [row | {"committed_at_us": at_us} for row, at_us in zip(rows.to_pylist(), times, strict=True)]
        for _, messages in groupby(found, key=itemgetter("committed_id")):
            record = self._join(list(messages))
            if record is not None:
                yield record

    def _join(self, messages: list[Row]) -> Record | None:
        """Return the record that these rows come from; None if the stream that it belongs to is unknown."""
        row = messages[0]
        committed_id, at_us = CommittedId(row["committed_id"]), row["committed_at_us"]
        if row["kind"] == "event":
            data = encode_stored(row["id"], row["client_id"], tuple(row["partitions"]), row["data"])
            return Record(committed_id, at_us, Kind.EVENT, TopicId(0), 0, 0, 1, data, row["client_id"])
        offset = Offset.parse(row["offset"])
        topic = self._topics.get((row["stream"], offset.read_seq))
        if topic is None:
            return None
        comma = b"," if is_json(row["content_type"]) else b""
        data = b"".join([message["data"] + comma for message in messages])
        end = offset.position + len(data)
        return Record(
            committed_id, at_us, Kind.APPEND, topic, offset.position, end, len(messages), data, row["producer_id"]
        )
