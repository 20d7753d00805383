"""Decides for each target, before any row of it is read, whether a policy can prune something and what to read."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from mainstem import limits
from mainstem.pipeline.jobs.retain.policies import Policies, Policy
from mainstem.pipeline.jobs.retain.survey import Surveyed
from mainstem.pipeline.jobs.targets import PARTITION, STREAM, Target
from mainstem.pipeline.log_reader import Selection


class Kept(enum.StrEnum):
    """Why nothing of a target is pruned."""

    EMPTY = "nothing is left to prune"
    WITHIN = "nothing exceeds {bounds}"
    NEWEST = "only the newest append is left, which always stays"
    NO_SNAPSHOT = "no snapshot yet"
    SNAPSHOT = "the snapshot contains nothing that is still in the log"
    ARCHIVE = "the archive reaches only committed id {archived}"
    FORKS = "held by forks"
    CHANGED = "another client has pruned it meanwhile"


@dataclass(frozen=True)
class Bounds:
    """What a round compares targets with."""

    head: int
    now_us: int
    """The time of the server, whose clock has set the commit times."""
    ages: Mapping[int, int]
    """From a `max_age` in seconds to the newest id that is older."""
    archived: Mapping[str, int]
    """The committed id that each archive has reached."""


@dataclass(frozen=True)
class Work:
    """A target with something to examine: its rows with `first` <= committed_id <= `until`."""

    target: Target
    policy: int
    floor: int
    first: int
    until: int
    last: int
    messages: int
    size: int
    forked: bool


@dataclass(frozen=True)
class Group:
    """Targets of one kind that one task reads together."""

    selection: Selection
    work: tuple[Work, ...]

    @property
    def named(self) -> bool:
        """Whether the server filters by the names of the targets."""
        return self.selection.kind is None

    @property
    def after(self) -> int:
        return min(work.first for work in self.work) - 1


def plan(found: Surveyed, policy: Policy, bounds: Bounds) -> Work | Kept:
    """Return what to read of a target, or why nothing of it can be pruned."""
    newest_stays = found.target.kind == STREAM
    excess = _exceeds(found, policy)
    old_until = bounds.ages[policy.max_age_s] if policy.max_age_s is not None else 0
    if found.first > found.last:
        return Kept.EMPTY
    if policy.bounded and not excess and old_until < found.first:
        return Kept.WITHIN
    if newest_stays and found.first >= found.last:
        return Kept.NEWEST
    if policy.require_snapshot and found.snapshot < found.first:
        return Kept.SNAPSHOT if found.snapshot else Kept.NO_SNAPSHOT
    if policy.require_archive is not None and bounds.archived[policy.require_archive] < found.first:
        return Kept.ARCHIVE
    if found.forked and (excess or not policy.bounded or found.examined):
        return Kept.FORKS
    until = min(found.last - newest_stays, bounds.head)
    if policy.require_snapshot:
        until = min(until, found.snapshot)
    if policy.require_archive is not None:
        until = min(until, bounds.archived[policy.require_archive])
    if policy.bounded and not excess:
        until = min(until, old_until)
    left = (found.messages, found.size)
    return Work(found.target, found.policy, found.floor, found.first, until, found.last, *left, found.forked)


def _exceeds(found: Surveyed, policy: Policy) -> bool:
    too_many = policy.max_events is not None and found.messages > policy.max_events
    return too_many or (policy.max_bytes is not None and found.size > policy.max_bytes)


def make_groups(works: Iterable[Work], slots: int) -> list[Group]:
    """Divide the work among tasks. The server filters by name, unless there are too many names for that."""
    ordered = sorted(works, key=lambda work: (work.target.kind, work.first))
    groups: list[Group] = []
    for kind in (PARTITION, STREAM):
        of_kind = [work for work in ordered if work.target.kind == kind]
        named = _group_by_name(kind, of_kind)
        if len(named) > limits.RETAIN_GROUPS_MAX:
            whole = Selection(kind="event" if kind == PARTITION else "stream")
            named = [Group(whole, tuple(of_kind[slot::slots])) for slot in range(min(slots, len(of_kind)))]
        groups += named
    return groups


def _group_by_name(kind: str, works: list[Work]) -> list[Group]:
    groups: list[list[Work]] = []
    size = 0
    for work in works:
        length = len(quote(work.target.name)) + len("&partition=")
        names_max = limits.EVENT_PARTITIONS_MAX if kind == PARTITION else limits.RETAIN_STREAMS_MAX
        if not groups or len(groups[-1]) >= names_max or size + length > limits.PUSHED_BYTES_MAX:
            groups.append([])
            size = 0
        groups[-1].append(work)
        size += length
    return [Group(select_targets(kind, group), tuple(group)) for group in groups]


def select_targets(kind: str, works: Iterable[Work]) -> Selection:
    names = tuple(work.target.name for work in works)
    return Selection(partitions=names) if kind == PARTITION else Selection(streams=names)


def explain_kept(
    policies: Policies, kept: Mapping[tuple[int, Kept], int], matched: set[int], bounds: Bounds
) -> dict[str, str]:
    """Return for each policy, by its name, why it left targets as they are."""
    told: dict[str, str] = {}
    for number, policy in enumerate(policies.all):
        if policy.keep:
            continue
        if number not in matched:
            told[policy.name] = f"matches no {policy.kind}, or only those that an earlier policy matches"
            continue
        archived = bounds.archived.get(policy.require_archive or "", 0)
        values = {"bounds": _name_bounds(policy), "archived": archived}
        reasons = [
            f"{count} {policy.kind}{'s' if count > 1 else ''}: {reason.format(**values)}"
            for reason in Kept
            if (count := kept.get((number, reason), 0))
        ]
        if reasons:
            told[policy.name] = "; ".join(reasons)
    return told


def _name_bounds(policy: Policy) -> str:
    given = [
        *([f"max_age = {policy.max_age_s} s"] if policy.max_age_s is not None else []),
        *([f"max_events = {policy.max_events}"] if policy.max_events is not None else []),
        *([f"max_bytes = {policy.max_bytes}"] if policy.max_bytes is not None else []),
    ]
    return " or ".join(given)
