"""Run the public Durable Streams server suite, unchanged, against a real server on every embedded store."""

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.node_packages import assert_pinned, install

SUITE = Path(__file__).parent / "suite"
LONG_POLL_MS = "500"  # the suite expects this value; its time-outs depend on it

PASSED = 338
TIMED = ("TTL Expiration Behavior", "Fork - TTL and Expiry")
"""Blocks whose tests act half a second before a stream expires. A busy machine can lose that half second between the
client's clock and its request, so a failed one of these, and no other, gets a second try, alone."""


@pytest.fixture(scope="session")
def vitest() -> list[str]:
    """Install the suite's packages, and return the command that runs the suite."""
    node = install(SUITE)
    return [*node, str(SUITE / "node_modules" / "vitest" / "vitest.mjs")]


def run_suite(vitest: list[str], url: str, report: Path, *options: str) -> list[dict]:
    environment = os.environ | {
        "MAINSTEM_URL": url,
        "MAINSTEM_LONG_POLL_MS": LONG_POLL_MS,
        "MAINSTEM_SUBSCRIPTIONS": "1",
    }
    command = [*vitest, "run", "--reporter=json", f"--outputFile={report}", *options]
    done = subprocess.run(command, cwd=SUITE, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert report.exists(), done.stdout + done.stderr
    return [test for file in json.loads(report.read_text())["testResults"] for test in file["assertionResults"]]


def is_timed(test: dict) -> bool:
    return any(block in test["ancestorTitles"] for block in TIMED)


def repeat(vitest: list[str], url: str, report: Path, failed: dict) -> dict:
    """Return the result of a second run of one test."""
    again = run_suite(vitest, url, report, f"--testNamePattern={re.escape(failed['fullName'])}")
    return next(test for test in again if test["fullName"] == failed["fullName"])


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("store", ["sqlite", "memory", "postgres"])
def test_the_public_suite_passes(start_server, vitest, tmp_path, store, request):
    place = request.getfixturevalue("postgres_url") if store == "postgres" else store
    server = start_server("--store", place, "--long-poll-ms", LONG_POLL_MS, "--allow-local-webhooks")
    tests = run_suite(vitest, server.url, tmp_path / "report.json")
    tests = [
        repeat(vitest, server.url, tmp_path / "again.json", test)
        if test["status"] == "failed" and is_timed(test)
        else test
        for test in tests
    ]
    failed = {test["fullName"]: test["failureMessages"] for test in tests if test["status"] == "failed"}
    assert not failed
    assert Counter(test["status"] for test in tests) == {"passed": PASSED}
    assert "Traceback" not in server.stderr


def test_the_lock_file_pins_packages_and_no_registry():
    assert_pinned(SUITE)
