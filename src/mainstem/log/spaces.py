"""The number of every space of states. To add a space, take the next free number here and declare it with its type.

The numbers are on disk: a number never changes, and one that was given up is never used again. Tests use numbers from
900 on.
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
