"""What all tests share."""

import fcntl
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mainstem.pipeline.spark.session import NICENESS_SET, SHORT_LIFE

pytest_plugins = ["mainstem.testing.plugin"]

# A run must not depend on the machine's speed; examples are bounded in number where they are used.
settings.register_profile("mainstem", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mainstem")

# Here a test that starts processes or writes files belongs to the slow half: together they take many minutes.
HEAVY = frozenset(["cli", "log_api", "offline_client", "pipeline", "spark", "streams_client"])
DATABASE = "postgres"
OF_PROCESSES = frozenset(["start_server", "tmp_path_factory"])
MAINSTEM = Path(sys.executable).with_name("mainstem")


def pytest_itemcollected(item: pytest.Item) -> None:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    fixtures = set(getattr(item, "fixturenames", ()))
    if folder == DATABASE or (folder in HEAVY and OF_PROCESSES & fixtures):
        item.add_marker(pytest.mark.slow)
    if "spark" in fixtures:
        # Py4J leaves the sockets of ended threads to the garbage collector.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is kept in the home folder of whoever runs the tests, and Java is set for short lives.

    It hardly gives way: with tests on every core it would wait too long for a Python of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp().parent / "cache"))
        patch.setenv(NICENESS_SET, "1")
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf 'spark.driver.extraJavaOptions={SHORT_LIFE}' pyspark-shell")
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """One local Spark, whose tasks may fail three times. Whoever asks for a session in this process gets this one."""
    from mainstem.pipeline.spark.class_archive import archive_of, is_there
    from mainstem.pipeline.spark.java import find_java
    from mainstem.pipeline.spark.session import end_java, find_jars, session

    archive = archive_of(find_java(), find_jars())
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process prepares it for all
        if not is_there(archive):
            subprocess.run([MAINSTEM, "pipeline", "prepare"], check=True, stdout=subprocess.DEVNULL)
    made = session("tests", "local[2,4]", work=tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        end_java()
        gc.collect()  # what is left of the connections to Java, so that no later test meets them
