from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import NamedTuple

import httpx2
import pytest

from mainstem.testing.server import ServerProcess
from tests.support.collectors import Collector

numbers = count(1)


def export_to(url: str, **more: str) -> dict[str, str]:
    """Return the variables of a server that exports to a collector without delay."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "NO_PROXY": "*",
        **more,
    }


class Caller(NamedTuple):
    """A span of a client that calls the server."""

    trace_id: str
    span_id: str

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"

    @property
    def headers(self) -> dict[str, str]:
        return {"traceparent": self.traceparent}


@pytest.fixture
def caller() -> Caller:
    """A span that no other test uses."""
    number = next(numbers)
    return Caller(f"{number:032x}", f"{number:016x}")


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """The collector of the shared server."""
    with closing(Collector()) as collector:
        yield collector


@pytest.fixture(scope="session")
def traced_server(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that exports all its traces."""
    data = tmp_path_factory.mktemp("traced") / "data"
    with ServerProcess(data, "--allow-local-webhooks", environment=export_to(collector.url)) as server:
        yield server


@pytest.fixture
def traced(traced_server: ServerProcess) -> Iterator[httpx2.Client]:
    """A client of the server that exports all its traces."""
    with httpx2.Client(base_url=traced_server.url, timeout=60, trust_env=False, verify=False) as client:
        yield client


@pytest.fixture
def own_collector() -> Iterator[Collector]:
    """A collector for a server of this test."""
    with closing(Collector()) as collector:
        yield collector
