"""Faults for the audit to find, planted into the file of a stopped server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from mainstem.log.commands import Space
from mainstem.log.records import Kind
from mainstem.log.store.sqlite.checksums import use_checksums
from mainstem.streams.states import PRODUCERS, STREAMS
from mainstem.sync.states import EVENT_IDS
from mainstem.testing.server import ServerProcess


class Store:
    """The tables of a stopped server."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db

    def event_id(self, number: int) -> int:
        """Return the committed id of the event with this number, from 0."""
        return self.db.execute(
            f"SELECT committed_id FROM records WHERE kind = {Kind.EVENT:d} ORDER BY committed_id LIMIT 1 OFFSET ?",
            (number,),
        ).get

    def appends_to(self, path: str) -> list[int]:
        """Return the committed ids of a stream's appends."""
        topic = self.state(STREAMS, path).topic
        rows = self.db.execute(
            f"SELECT committed_id FROM records WHERE kind = {Kind.APPEND:d} AND topic = ? ORDER BY committed_id",
            (topic,),
        )
        return [number for (number,) in rows]

    def data(self, committed_id: int) -> bytes:
        return self.db.execute("SELECT data FROM records WHERE committed_id = ?", (committed_id,)).get

    def set(self, committed_id: int, **columns: Any) -> None:
        for name, value in columns.items():
            self.db.execute(f'UPDATE records SET "{name}" = ? WHERE committed_id = ?', (value, committed_id))

    def remove(self, committed_id: int) -> None:
        self.db.execute("DELETE FROM records WHERE committed_id = ?", (committed_id,))

    def copy(self, committed_id: int, **columns: Any) -> int:
        """Add a second record with the same content at the end of the log."""
        new = self.db.execute("SELECT max(committed_id) + 1 FROM records").get
        self.db.execute(
            'INSERT INTO records SELECT ?, committed_at_us, kind, topic, "start", "end", messages, source, data'
            " FROM records WHERE committed_id = ?",
            (new, committed_id),
        )
        newest = self.db.execute("SELECT max(committed_at_us) FROM records").get
        self.set(new, committed_at_us=newest, **columns)
        return new

    def state(self, space: Space[Any], name: str) -> Any:
        value = self.db.execute("SELECT value FROM states WHERE space = ? AND name = ?", (space.number, name)).get
        return space.decode(value)

    def change_state(self, space: Space[Any], name: str, **fields: Any) -> None:
        state = msgspec.structs.replace(self.state(space, name), **fields)
        self.db.execute(
            "UPDATE states SET value = ? WHERE space = ? AND name = ?", (space.encode(state), space.number, name)
        )

    def forget_state(self, space: Space[Any], name: str) -> None:
        self.db.execute("DELETE FROM states WHERE space = ? AND name = ?", (space.number, name))


@contextmanager
def opened(server: ServerProcess) -> Iterator[Store]:
    """Stop the server, let the caller change its file, and start the server again."""
    if server.running:
        server.terminate()
    (path,) = server.data.glob("*.db")
    use_checksums()
    db = apsw.Connection(str(path))
    try:
        yield Store(db)
    finally:
        db.close()
    server.start()


__all__ = ["EVENT_IDS", "PRODUCERS", "STREAMS", "Store", "opened"]
