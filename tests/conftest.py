"""Settings and hooks for all tests; the shared fixtures are in tests/support/fixtures.py."""

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.support")

from tests.support.requirements import IN_CI  # noqa: E402

pytest_plugins = ["mainstem.testing.plugin", "tests.support.fixtures", "tests.support.spark_session"]

# A run must not depend on the machine's speed; the number of examples is limited where they are used.
settings.register_profile("mainstem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mainstem")

# In these folders, tests that start processes or write files are slow tests: together they take many minutes.
HEAVY = frozenset(["cli", "crash", "log_api", "offline_client", "pipeline", "spark", "streams_client", "workers"])
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# All tests of these folders and files are slow tests: they search, run whole pages, or start other servers.
SLOW = (
    "auth/test_command.py",
    "descriptions/",
    "docs/test_readme.py",
    "forks/test_fork_endings.py",
    "http/test_slow_readers.py",
    "postgres/",
    "proxy/",
    "simulation/",
    "telemetry/test_bad_collectors.py",
    "unit/test_freed_memory.py",
    "unit/testing/simulation/",
)
OF_PROCESSES = frozenset(["start_server", "tmp_path_factory"])
OF_DATABASES = frozenset(["postgres", "postgres_url"])


def pytest_itemcollected(item: pytest.Item) -> None:
    path = item.path.relative_to(Path(__file__).parent)
    fixtures = set(getattr(item, "fixturenames", ()))
    is_heavy = path.parts[0] in HEAVY and OF_PROCESSES & fixtures
    if path.as_posix().startswith(SLOW) or is_heavy or OF_DATABASES & fixtures:
        item.add_marker(pytest.mark.slow)
    if "spark" in fixtures:
        item.add_marker(pytest.mark.xdist_group("spark"))  # one worker runs them all, and starts Java once
        # Py4J leaves the sockets of ended threads to the garbage collector.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


# Order


# The folders that take longest begin first, so that no worker is still busy when the others have nothing left.
FIRST = (
    "tests/conformance/",
    "tests/pipeline/",
    "tests/spark/",
    "tests/postgres/",
    "tests/official_clients/",
    "tests/torture/",
    "tests/simulation/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Freeze the objects that now exist: they last until the end of the run, so the collector can skip them."""
    gc.collect()
    gc.freeze()


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("slow") is None:
        return len(FIRST) + 1
    return next((rank for rank, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST))


def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than there are cores, since many tests wait, but few enough for a laptop's memory."""
    return min(4, (os.cpu_count() or 1) + 1)


# In CI no test may be skipped


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skips((yield))


def _without_skips(report: Report) -> Report:
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"in CI no test may be skipped: {report.longrepr}"
    return report
