"""Faults of the server itself, each of which breaks a promise. They are called in the server's process."""

from typing import Any

from mainstem.log.commands import View
from mainstem.log.commit import CommitLog, _needs, _set_outcomes
from mainstem.log.store import SqliteStore
from mainstem.streams.rules import producers


def answer_before_saving() -> None:
    """Acknowledge writes that are not durable yet."""

    async def commit(self: CommitLog, batch: Any) -> None:
        states = await self.store.load(_needs(batch))
        view = View(states, self.store.head, self.clock_us())
        _set_outcomes(self._apply(batch, view))
        await self.store.save(view.changes, view.records, view.head)
        self.publish(view.changes, view.records)

    CommitLog._commit = commit  # type: ignore[method-assign]


def forget_duplicates() -> None:
    """Store a producer's retry again."""
    check = producers.is_duplicate

    def never(known: Any, request: Any) -> bool:
        check(known, request)
        return False

    producers.is_duplicate = never


def refuse_to_start() -> None:
    raise SystemExit(3)


def fail_at_the_end() -> None:
    """Fail after everything else in an orderly shutdown."""
    close = SqliteStore.close

    async def close_and_fail(self: SqliteStore) -> None:
        await close(self)
        raise SystemExit(3)

    SqliteStore.close = close_and_fail  # type: ignore[method-assign]
