"""What a caller may see of the list of partitions, and in which order it is looked up."""

import random

import pytest

from mainstem.access import EVERYBODY, Identity
from mainstem.server.endpoints.partition_list import Range, describe_partition, list_ranges
from mainstem.sync.states import PartitionState


def caller(*names: str, prefixes: tuple[str, ...] = ()) -> Identity:
    return Identity(partitions=frozenset(names), partition_prefixes=prefixes)


@pytest.mark.parametrize(
    ("identity", "prefix", "expected"),
    [
        (EVERYBODY, "", [Range("", True)]),
        (EVERYBODY, "a", [Range("a", True)]),
        (caller(), "", []),
        (caller("b", "a"), "", [Range("a", False), Range("b", False)]),
        (caller("b", "a"), "b", [Range("b", False)]),
        (caller(prefixes=("a", "ab", "a")), "", [Range("a", True)]),
        (caller("a", "ab", "b", prefixes=("a",)), "", [Range("a", True), Range("b", False)]),
        (caller("a", "ab", prefixes=("ab",)), "", [Range("a", False), Range("ab", True)]),
        (caller("abc", prefixes=("a",)), "ab", [Range("ab", True)]),
        (caller(prefixes=("",)), "x", [Range("x", True)]),
        (caller(prefixes=("b",)), "a", []),
    ],
)
def test_the_ranges_of_a_caller_do_not_overlap(identity, prefix, expected):
    assert list(list_ranges(prefix, identity)) == expected


def test_the_ranges_cover_exactly_what_the_caller_may_use():
    chance = random.Random(7)
    names = ["".join(chance.choices("ab", k=chance.randrange(1, 6))) for _ in range(200)]
    for _ in range(300):
        identity = caller(
            *chance.sample(names, 3), prefixes=tuple(chance.choices([*names, "b"], k=chance.randrange(3)))
        )
        prefix = chance.choice(["", "a", "ab", "bb"])
        ranges = list(list_ranges(prefix, identity))
        in_order = [
            name
            for range_ in ranges
            for name in sorted(set(names))
            if (name.startswith(range_.name) if range_.is_prefix else name == range_.name)
        ]
        assert in_order == [name for name in sorted(set(names)) if name.startswith(prefix) and identity.may_use(name)]


@pytest.mark.parametrize(
    ("newest", "state", "end", "floor", "snapshot"),
    [
        (7, None, 7, 0, None),
        (7, PartitionState(floor=3, snapshot_id=5), 7, 3, 5),
        (0, PartitionState(floor=9), 9, 9, None),
        (0, PartitionState(snapshot_id=4), 0, 0, 4),
    ],
)
def test_a_partition_is_described(newest, state, end, floor, snapshot):
    assert describe_partition("p", newest, state) == {
        "partition": "p",
        "last_committed_id": end,
        "floor": floor,
        "snapshot_committed_id": snapshot,
    }
