"""Summaries of jobs: readable for people, raw as JSON."""

import json
import sys

import pytest

from mainstem.cli.pipeline.summaries import write_summary

SUMMARY = {
    "job": "retain",
    "rows": 1_220,
    "committed_id": 123_456,
    "seconds": 12.3456,
    "given_up_bytes": 2_984_089,
    "erased": None,
    "archived": {"/data/my_archive": 123_000},
    "found": {},
    "policies": {"old_rooms": 1_217, "logs": 3},
    "problems": [],
    "targets": [],
    "dry_run": False,
}


@pytest.fixture
def printed(capsysbinary):
    """Returns what was printed."""

    def read() -> str:
        sys.stdout.flush()
        return capsysbinary.readouterr().out.decode()

    return read


def test_people_see_no_empty_values_and_formatted_numbers(printed):
    write_summary(SUMMARY, as_json=False)
    assert printed().splitlines() == [
        "job             retain",
        "rows            1,220",
        "committed id    123456",
        "seconds         12.35",
        "given up bytes  2.8 MiB",
        "archived        /data/my_archive: 123000",
        "policies        old_rooms: 1,217",
        "                logs: 3",
    ]


def test_objects_are_a_table_below_the_facts(printed):
    target = {"kind": "partition", "name": "room", "committed_id": 1_220, "bytes": 812}
    write_summary({"job": "retain", "targets": [target], "problems": ["a: b", "c: d"]}, as_json=False)
    assert printed().splitlines() == [
        "job       retain",
        "problems  a: b",
        "          c: d",
        "",
        "kind       name  committed id  bytes",
        "partition  room          1220  812 B",
    ]


def test_a_dry_run_says_so(printed):
    write_summary({"job": "archive", "dry_run": True}, as_json=False)
    assert "dry run  yes" in printed()


def test_json_keeps_everything_as_it_is(printed):
    write_summary(SUMMARY, as_json=True)
    assert json.loads(printed()) == SUMMARY
