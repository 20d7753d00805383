"""Which partitions and streams a policy can touch, from the states that the server keeps: no row of the log is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient
from mainstem.pipeline.jobs.retain.policies import Policies
from mainstem.pipeline.jobs.snapshot_client import SnapshotClient, TargetGone
from mainstem.pipeline.jobs.targets import PARTITION, STREAM, Target

NDJSON = "application/x-ndjson"


@dataclass
class Surveyed:
    """A partition or stream with a policy, as the server describes it."""

    target: Target
    policy: int
    floor: int
    """What was pruned: the ids of a partition up to this one, or the positions of a stream below it."""
    first: int
    """No row that is left has a lower id than this."""
    last: int
    """The id of its newest row."""
    messages: int = 0
    """What is left of it: known for streams, counted for partitions."""
    size: int = 0
    snapshot: int = 0
    """The committed id of its snapshot; 0 if it has none, or if the policy does not require one."""
    forked: bool = False
    """Whether forks read it, so that the server keeps all of it."""
    examined: bool = False
    """Whether `first` is the id of a row, found by an earlier round, and not only a lower bound."""


def survey(client: HttpClient, policies: Policies) -> Iterator[Surveyed]:
    """Yield every partition and stream that a policy may prune."""
    for prefix in policies.list_prefixes(PARTITION):
        yield from _survey_partitions(client, policies, prefix)
    for prefix in policies.list_prefixes(STREAM):
        yield from _survey_streams(client, policies, prefix)


def _survey_partitions(client: HttpClient, policies: Policies, prefix: str) -> Iterator[Surveyed]:
    after: str | None = ""
    while after is not None:
        query = [("prefix", prefix), ("after", after), ("limit", str(limits.LISTED_STREAMS_MAX))]
        page = client.get_json("/v1/partitions", query)
        for found in page["partitions"]:
            name, floor = found["partition"], found["floor"]
            policy = policies.find(PARTITION, name)
            if policy is not None:
                snapshot = found["snapshot_committed_id"] or 0
                last = found["last_committed_id"]
                yield Surveyed(Target(PARTITION, name), policy, floor, floor + 1, last, snapshot=snapshot)
        after = page["next"]


def _survey_streams(client: HttpClient, policies: Policies, prefix: str) -> Iterator[Surveyed]:
    snapshots = SnapshotClient(client)
    after: str | None = ""
    while after is not None:
        query = [("of", "streams"), ("prefix", prefix), ("after", after), ("limit", str(limits.INDEX_PAGE_MAX))]
        reply = client.request("GET", "/v1/log/index", query=query, headers={"Accept": NDJSON})
        for row in map(msgspec.json.decode, reply.body.splitlines()):
            policy = None if row["deleted"] or row["soft_deleted"] else policies.find(STREAM, row["path"])
            if policy is None:
                continue
            found = Surveyed(
                Target(STREAM, row["path"], row["read_seq"]),
                policy,
                row["earliest"],
                row["topic"] + 1,  # a topic is the id of the record that created the stream
                row["last_id"],
                row["messages"],
                row["tail"] - row["begins"],
                forked=row["forks"] > 0,
            )
            if policies.all[policy].require_snapshot:
                try:
                    found.snapshot = snapshots.fetch(found.target, whole=False).committed_id
                except TargetGone:
                    continue
            yield found
        following = reply.headers.get("Log-Next")
        after = None if following is None else unquote(following)
