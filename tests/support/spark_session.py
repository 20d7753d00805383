"""One local Spark for all tests of a worker, with Java set up for the short lives that tests give it."""

import fcntl
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.pipeline.spark.session import NICENESS_VARIABLE, SHORT_LIVED_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = Path(__file__).parents[2] / ".cache" / "tests"
MAINSTEM = Path(sys.executable).with_name("mainstem")


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> Iterator[None]:
    """Keep nothing in the home folder of the developer; what the next run can use stays in `.cache`.

    Java hardly yields to other processes: with tests on every core it would wait too long for its own Python workers.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(CACHE))
        patch.setenv(NICENESS_VARIABLE, "1")
        patch.setenv(
            "PYSPARK_SUBMIT_ARGS", f"--conf 'spark.driver.extraJavaOptions={SHORT_LIVED_OPTIONS}' pyspark-shell"
        )
        yield


@pytest.fixture(scope="session")
def prepared_classes() -> Path:
    """Return the class archive: the first test process that needs it makes it for all, and for later runs."""
    from mainstem.pipeline.spark.class_archive import class_archive_path, is_usable
    from mainstem.pipeline.spark.java import find_java
    from mainstem.pipeline.spark.session import find_jars

    archive = class_archive_path(find_java(), find_jars())
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_usable(archive):
            subprocess.run([MAINSTEM, "pipeline", "prepare"], check=True, stdout=subprocess.DEVNULL)
    return archive


@pytest.fixture(scope="session")
def java_options(prepared_classes: Path) -> dict[str, str]:
    """Return the environment in which Spark's own programs, such as `spark-submit`, start Java as the jobs do."""
    from mainstem.pipeline.spark.class_archive import use_options

    return {"JDK_JAVA_OPTIONS": f"{SHORT_LIVED_OPTIONS} {use_options(prepared_classes)}"}


@pytest.fixture(autouse=True)
def active_session(request: pytest.FixtureRequest) -> None:
    """Activate the session in the Java thread that serves this one now: after callbacks of Java that may be another,
    and Spark finds sinks that are written in Python only in an active session."""
    if "spark" in request.fixturenames:
        from mainstem.pipeline.spark.session import session

        request.getfixturevalue("spark")
        session("tests")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, prepared_classes: Path) -> "Iterator[SparkSession]":
    """A Spark whose tasks may fail three times. All code that asks for a session in this process gets this one."""
    from mainstem.pipeline.spark.session import session, stop_java

    made = session("tests", "local[2,4]", work=tmp_path_factory.mktemp("spark"))
    yield made
    made.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        stop_java()
        gc.collect()  # closes the remaining connections to Java, so that no later test meets them
