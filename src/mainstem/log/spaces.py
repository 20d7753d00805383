"""The number of every space. To add a space, take the next free number here and declare a `Space` with its type.

The numbers are on disk, so a number never changes, and the number of a retired space is never used again. Tests use
numbers from 900. The table of spaces in docs/internals/storage.md is tested against this list.
"""

from enum import IntEnum, unique


@unique
class SpaceNumber(IntEnum):
    STREAMS = 1
    PRODUCERS = 2
    GARBAGE = 3
    RETENTION_CHECKS = 4
    SUBSCRIPTIONS = 5
    LINKS = 6
    KEYRINGS = 7
    EVENT_IDS = 8
    PARTITIONS = 9
    SNAPSHOTS = 10
    PRUNED = 11
    STREAM_SNAPSHOTS = 12
    JOBS = 13
    IDENTITY = 14
