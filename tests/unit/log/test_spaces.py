"""Every space has its own number, in one list."""

import msgspec
import pytest

from mainstem.checks import rules  # noqa: F401 - imports every module that declares a space
from mainstem.log.commands import Space
from mainstem.log.spaces import SpaceNumber

ON_DISK = {
    "STREAMS": 1,
    "PRODUCERS": 2,
    "GARBAGE": 3,
    "RETENTION_CHECKS": 4,
    "SUBSCRIPTIONS": 5,
    "LINKS": 6,
    "KEYRINGS": 7,
    "EVENT_IDS": 8,
    "PARTITIONS": 9,
    "SNAPSHOTS": 10,
    "PRUNED": 11,
    "STREAM_SNAPSHOTS": 12,
    "JOBS": 13,
    "IDENTITY": 14,
}


def test_the_numbers_on_disk_never_change():
    assert {number.name: number.value for number in SpaceNumber} == ON_DISK


def test_every_number_is_declared_and_no_other_except_those_of_tests():
    assert {number for number in Space.declared if number < 900} == set(SpaceNumber)


def test_a_number_cannot_be_declared_twice():
    with pytest.raises(ValueError, match="declared twice"):
        Space(SpaceNumber.STREAMS, msgspec.Struct)
