"""Numbers and facts as people read them."""

import sys

import pytest

from mainstem.cli import output


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (2_984_089.25, "2.8 MiB"),
        (1_024**2, "1.0 MiB"),
        (5 * 1_024**3, "5.0 GiB"),
        (1_024**4, "1.0 TiB"),
        (5_000 * 1_024**4, "5,000.0 TiB"),
    ],
)
def test_a_size_has_the_largest_unit_that_it_fills(size, expected):
    assert output.format_bytes(size) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (5_400, "1h30m"), (3_605, "1h"), (90_000, "1d1h"), (-5, "0s")],
)
def test_a_duration_has_its_two_largest_units(seconds, expected):
    assert output.format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rows", 2_984_089, "2,984,089"),
        ("appends_per_second", 1_490.4321, "1,490"),
        ("append_ms_median", 0.5 + 0.026, "0.53"),
        ("seconds", 3.0, "3"),
        ("bytes", 2_984_089, "2.8 MiB"),
        ("given_up_bytes", 10, "10 B"),
        ("read_bytes_per_second", 2_984_089.25, "2.8 MiB/s"),
        ("committed_id", 2_984_089, "2984089"),
        ("head", 12_345, "12345"),
        ("closed", True, "yes"),
        ("path", "a/b", "a/b"),
        ("acked_offset", None, "-"),
    ],
)
def test_the_name_of_a_fact_decides_its_unit(name, value, expected):
    assert output.show_fact(name, value) == expected


def test_facts_for_people_leave_out_what_is_empty(capfdbinary):
    facts = {
        "job": "audit",
        "rows": 1_200,
        "lag": 0,
        "found": {},
        "examples": [],
        "archived": None,
        "policies": {"old": 3, "new": 12_000},
        "problems": ["first", "second"],
        "targets": [{"name": "a", "bytes": 2_048}, {"name": "b", "bytes": 1}],
    }
    output.write_facts(facts, as_json=False)
    sys.stdout.buffer.flush()
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "job       audit",
        "rows      1,200",
        "lag       0",
        "policies  old 3, new 12,000",
        "problems  first",
        "          second",
        "targets   name a, bytes 2.0 KiB",
        "          name b, bytes 1 B",
    ]


def test_facts_for_programs_are_all_there(capfdbinary):
    output.write_facts({"found": {}, "examples": [], "bytes": 2_984_089.25}, as_json=True)
    sys.stdout.buffer.flush()
    assert capfdbinary.readouterr().out == b'{"found":{},"examples":[],"bytes":2984089.25}\n'
