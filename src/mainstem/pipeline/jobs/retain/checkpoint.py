"""What retain remembers between rounds, so that it reads a row once when it is new and once when it is pruned.

It is a cache: without it, the next round counts again, with the same result.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.jobs.retain.policies import Policies

NAME = "retain.json"


class PartitionProgress(msgspec.Struct, array_like=True):
    """How much of a partition is left above its floor, up to `Checkpoint.counted`."""

    floor: int = 0
    first: int = 1
    """No event that is left has a lower id than this."""
    messages: int = 0
    size: int = 0


class StreamProgress(msgspec.Struct, array_like=True):
    read_seq: int
    first: int
    """No message that is left has a lower id than this."""


class Checkpoint(msgspec.Struct):
    log: str
    """Which log this is about: another one has other rows for its ids."""
    policies: str
    counted: int = 0
    """The committed id up to which events were counted."""
    partitions: dict[str, PartitionProgress] = {}
    streams: dict[str, StreamProgress] = {}


def load_checkpoint(folder: Path, log: str, policies: Policies, head: int) -> Checkpoint:
    """Return what the last round left, or an empty checkpoint if that is missing or about something else."""
    fresh = Checkpoint(log, digest_policies(policies))
    try:
        found = msgspec.json.decode((folder / NAME).read_bytes(), type=Checkpoint)
    except (FileNotFoundError, msgspec.MsgspecError):
        return fresh
    same = (found.log, found.policies) == (fresh.log, fresh.policies) and found.counted <= head
    return found if same else fresh


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    replace_file(folder / NAME, msgspec.json.encode(checkpoint))


def digest_policies(policies: Policies) -> str:
    return hashlib.sha256(msgspec.json.encode(policies.all)).hexdigest()
