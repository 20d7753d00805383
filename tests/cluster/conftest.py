"""One cluster, one object store and one server for all tests of this folder, which one worker of xdist runs."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.drivers import Driver
from tests.support.object_stores import ObjectStore
from tests.support.spark_cluster import SparkCluster, submit_arguments

StartDriver = Callable[..., Driver]


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.is_relative_to(Path(__file__).parent):
        item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.timeout(400))
        item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def objects() -> Iterator[ObjectStore]:
    """An object store. Tests have their own buckets."""
    store = ObjectStore()
    yield store
    store.close()


@pytest.fixture(scope="session")
def machines(objects: ObjectStore, java_options: dict[str, str]) -> dict[str, str]:
    """The environment of every machine of the cluster: it has the credentials of the object store."""
    return {**java_options, **objects.environment, "PYSPARK_PYTHON": sys.executable}


@pytest.fixture(scope="session")
def cluster(machines: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers."""
    made = SparkCluster(tmp_path_factory.mktemp("cluster"), machines)
    yield made
    made.close()


@pytest.fixture
def drive(machines: dict[str, str]) -> Iterator[StartDriver]:
    """Start a driver in a process."""
    drivers: list[Driver] = []

    def start(plan: Mapping[str, Any], *arguments: str, confs: Mapping[str, str] | None = None) -> Driver:
        given = {"PYSPARK_SUBMIT_ARGS": submit_arguments(confs or {}, *arguments)}
        drivers.append(Driver(plan, {**machines, **given}))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()
