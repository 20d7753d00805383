"""The server applies the filters that it has, and Spark applies the others."""

import datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from mainstem.pipeline.datasource.filters import Scan, push_filters
from mainstem.pipeline.log_reader import Selection

ALL = Scan(0, 1_000, Selection())
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000
ID, STREAM, KIND, TIME, PARTITIONS = ("committed_id",), ("stream",), ("kind",), ("committed_at",), ("partitions",)


def pushed(*filters, of=ALL):
    wanted, left = push_filters(of, filters)
    return wanted, left


@pytest.mark.parametrize(
    ("filter_", "after", "until"),
    [
        (EqualTo(ID, 7), 6, 7),
        (GreaterThan(ID, 7), 7, 1_000),
        (GreaterThanOrEqual(ID, 7), 6, 1_000),
        (LessThan(ID, 7), 0, 6),
        (LessThanOrEqual(ID, 7), 0, 7),
        (In(ID, (7,)), 6, 7),
        (LessThan(ID, -5), 0, 0),
        (GreaterThan(ID, 5_000), 5_000, 5_000),
    ],
)
def test_ids_become_the_range(filter_, after, until):
    wanted, left = pushed(filter_)
    assert (wanted.after, wanted.until, left) == (after, until, [])


def test_a_list_of_ids_bounds_the_range_and_spark_filters():
    wanted, left = pushed(filter_ := In(ID, (9, None, 3)))
    assert (wanted.after, wanted.until, left) == (2, 9, [filter_])


@pytest.mark.parametrize(
    ("filter_", "since", "before"),
    [
        (EqualTo(TIME, NOON), NOON_US, NOON_US + 1),
        (GreaterThan(TIME, NOON), NOON_US + 1, None),
        (GreaterThanOrEqual(TIME, NOON), NOON_US, None),
        (LessThan(TIME, NOON), None, NOON_US),
        (LessThanOrEqual(TIME, NOON), None, NOON_US + 1),
    ],
)
def test_times_become_microseconds(filter_, since, before):
    wanted, left = pushed(filter_)
    assert (wanted.selection.since_us, wanted.selection.before_us, left) == (since, before, [])


def test_contradictory_times_select_nothing():
    assert pushed(GreaterThan(TIME, NOON), LessThan(TIME, NOON))[0].matches_nothing


def test_streams_by_name_list_and_prefix():
    assert pushed(EqualTo(STREAM, "a/b"))[0].selection.streams == ("a/b",)
    assert pushed(In(STREAM, ("a", None, "b")))[0].selection.streams == ("a", "b")
    assert pushed(StringStartsWith(STREAM, "a/"), StringStartsWith(STREAM, "a/b"))[0].selection.prefix == "a/b"
    assert pushed(StringStartsWith(STREAM, "a/b"), StringStartsWith(STREAM, "a/"))[0].selection.prefix == "a/b"
    assert pushed(StringStartsWith(STREAM, "a"), StringStartsWith(STREAM, "b"))[0].matches_nothing


def test_a_matching_prefix_does_not_undo_an_earlier_contradiction():
    prefixes = StringStartsWith(STREAM, "ab"), StringStartsWith(STREAM, "a")
    assert pushed(EqualTo(KIND, "other"), *prefixes)[0].matches_nothing


def test_a_named_stream_must_be_among_those_of_the_options():
    of = Scan(0, 9, Selection(streams=("a/*", "c")))
    assert pushed(In(STREAM, ("a/b", "c", "d")), of=of)[0].selection.streams == ("a/b", "c")
    assert pushed(EqualTo(STREAM, "a/b/c"), of=of)[0].matches_nothing


def test_a_name_with_a_star_would_be_a_glob_so_spark_filters_it():
    assert pushed(filter_ := EqualTo(STREAM, "a*")) == (ALL, [filter_])


def test_more_names_than_fit_into_a_url_stay_with_spark():
    assert pushed(filter_ := In(STREAM, tuple(f"stream/{n}" for n in range(5_000)))) == (ALL, [filter_])


def test_kinds_and_partitions_become_filters_of_the_server():
    assert pushed(EqualTo(KIND, "event"))[0].selection.kind == "event"
    assert pushed(EqualTo(KIND, "event"), EqualTo(KIND, "stream"))[0].matches_nothing
    assert pushed(EqualTo(KIND, "other"))[0].matches_nothing
    wanted, left = pushed(filter_ := EqualTo(PARTITIONS, ["a", "b"]))
    assert (wanted.selection.partitions, left) == (("a",), [filter_])
    wanted, _ = pushed(EqualTo(KIND, "event"), EqualTo(STREAM, "s"))
    assert wanted.selection.matches_nothing


@pytest.mark.parametrize(
    "filter_",
    [
        Not(EqualTo(ID, 3)),
        IsNotNull(STREAM),
        StringContains(STREAM, "x"),
        EqualTo(("data",), b"x"),
        EqualTo(("value", "stream"), "x"),
        EqualTo(STREAM, None),
        EqualTo(TIME, NOON.replace(tzinfo=None)),
    ],
)
def test_other_filters_stay_with_spark(filter_):
    assert pushed(filter_) == (ALL, [filter_])
