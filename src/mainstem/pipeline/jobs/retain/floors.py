"""The rule of retention: which records of a partition or stream are pruned, examined in committed order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mainstem.pipeline.jobs.retain.policies import Policy
from mainstem.pipeline.jobs.targets import STREAM


class Record(NamedTuple):
    """One record of a target. An append to a stream is kept or pruned as a whole."""

    committed_id: int
    committed_at_us: int
    messages: int
    size: int
    start: int = 0
    """Where it begins in its stream."""


class FloorFinder:
    """Finds the floor of one target.

    History is pruned from its beginning: nothing after the first record that stays is pruned, whatever its age.
    """

    def __init__(self, policy: Policy, messages: int, size: int, now_us: int, until: int) -> None:
        """`messages` and `size` are those of the whole history that is left, which need not be read. No record after
        `until` is pruned."""
        self._policy = policy
        self._messages = messages
        self._size = size
        self._before_us = None if policy.max_age_s is None else now_us - policy.max_age_s * 1_000_000
        self._until = until
        self.floor = 0
        """The newest committed id to prune; 0 if there is none."""
        self.messages = self.size = 0
        """How much is pruned."""
        self.first_kept: Record | None = None

    def take(self, record: Record) -> bool:
        """Return whether the next record is pruned. After the first one that stays, do not call this again.

        A large record may come in several parts, of which the first decides.
        """
        if record.committed_id != self.floor and (record.committed_id > self._until or not self._exceeds(record)):
            self.first_kept = record
            return False
        self.floor = record.committed_id
        self.messages += record.messages
        self.size += record.size
        return True

    def _exceeds(self, record: Record) -> bool:
        """Return whether the record exceeds a bound, now that all earlier ones are pruned."""
        policy = self._policy
        too_old = self._before_us is not None and record.committed_at_us < self._before_us
        too_many = policy.max_events is not None and self._messages - self.messages > policy.max_events
        too_large = policy.max_bytes is not None and self._size - self.size > policy.max_bytes
        return not policy.bounded or too_old or too_many or too_large


def find_floor(policy: Policy, records: Iterable[Record], now_us: int, cap: int) -> int:
    """Return the floor of a target whose records are all known. The newest record of a stream always stays."""
    ordered = list(records)
    if not ordered:
        return 0
    until = min(cap, ordered[-1].committed_id - (policy.kind == STREAM))
    totals = sum(record.messages for record in ordered), sum(record.size for record in ordered)
    finder = FloorFinder(policy, *totals, now_us, until)
    for record in ordered:
        if not finder.take(record):
            break
    return finder.floor
