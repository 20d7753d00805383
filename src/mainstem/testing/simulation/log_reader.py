"""Reads the whole log of a store as calls of a history."""

from mainstem.log.store import Store
from mainstem.server.log_api.pages import LogPages
from mainstem.server.log_api.rows import Rows
from mainstem.server.log_api.selection import Selection
from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Event, LogPage, Row, size_of
from mainstem.testing.history.recorder import Recorder


async def read_log(store: Store, recorder: Recorder) -> None:
    """Read the log in pages, as `/v1/log` does, but not in a process of its own."""
    pages = LogPages(store)
    after = 0
    while True:
        with recorder.record(LogPage(client="log", after=after)) as call:
            found = await pages.find(Selection(after=after), store.head)
            rows = Rows(found.records, found.names)
            call.rows = tuple(row for number in range(len(rows)) for row in read_messages(rows, number))
            call.events = tuple(read_event(rows, number) for number in range(len(rows)) if is_event(rows, number))
            call.next = after = found.next
            call.up_to_date = after >= store.head
        if call.up_to_date:
            return


def is_event(rows: Rows, number: int) -> bool:
    return bool(rows.is_event[rows.record[number]])


def read_event(rows: Rows, number: int) -> Event:
    record = rows.record[number]
    id_ = rows.id[record]
    assert id_ is not None
    return Event(rows.committed_id[record], id_, tuple(rows.partitions[record] or ()), rows.data[number].decode())


def read_messages(rows: Rows, number: int) -> list[Row]:
    """Return the messages of a row. A row of a text stream holds all messages of an append."""
    if is_event(rows, number):
        return []
    record = rows.record[number]
    about = rows.names[rows.topic[record]]
    data, position = rows.data[number].decode(), rows.start[number]
    messages = [data] if about.content_type == "application/json" else data.split("\n")[:-1]
    found: list[Row] = []
    for message in messages:
        found.append(Row(rows.committed_id[record], about.path, Offset(about.read_seq, position), message))
        position += size_of((message,))
    return found
