"""A SparkSession that is configured for the log, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem import limits
from mainstem.background_priority import enter_background
from mainstem.errors import BadOption
from mainstem.pipeline.cache_dir import user_cache_dir
from mainstem.pipeline.spark.class_archive import class_archive_path, is_usable, use_options
from mainstem.pipeline.spark.java import find_java
from mainstem.pipeline.spark.master import choose_master
from mainstem.pipeline.spark.python import worker_python
from mainstem.pipeline.spark.silence import has_logging_configuration, install_configuration, use_quiet_java
from mainstem.pipeline.start_checks import check_spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

SQL_CONFS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",  # without it, Spark refuses sources that push filters down
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Otherwise a query that was killed while its first batch was planned could never start again.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
LOCAL_CONFS = {
    "spark.driver.bindAddress": "127.0.0.1",  # no other machine needs to reach it
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.python.unix.domain.socket.enabled": "true",  # rows from Python arrive a fifth faster than over TCP
    "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),  # not scratch: the path of a socket must be short
}
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
SHORT_LIVED_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""Use only Java's quick compiler: in a process of a few minutes, the better one costs more than it gains."""

NICENESS = 12
"""The niceness of a local Spark: it gets the time that a server on the same machine, or other programs, leave."""
NICENESS_MAX = 19
NICENESS_VARIABLE = "MAINSTEM_SPARK_NICENESS"


def session(
    app_name: str = "mainstem",
    master: str | None = None,
    *,
    work: Path | str | None = None,
    conf: Mapping[str, str] | None = None,
    short_lived: bool = False,
    verbose: bool = False,
) -> SparkSession:
    """Return the running session, or start a new one.

    `master` is a Spark master, or `sc://host:port` for Spark Connect. The default is `MAINSTEM_SPARK_MASTER`, or else
    `local[*]`. `work` is the directory in which a local Spark keeps its scratch files and warehouse. `conf` overrides
    every setting made here. A `short_lived` local Spark warms up sooner, but is slower in the long run. A local Spark
    prints only errors, unless it is `verbose` or you have a logging configuration for Spark.
    """
    check_spark_version()
    from pyspark.sql import SparkSession

    master = choose_master(master)
    if master.startswith("sc://"):
        return _connect(app_name, master, conf or {})
    local = master.startswith("local")
    quiet = local and not verbose
    prepare_environment(local=local)
    chosen = SQL_CONFS | (LOCAL_CONFS | _local_confs(work, short_lived, quiet) if local else {}) | dict(conf or {})
    if local:
        _start_java(chosen, quiet)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    activate(made)
    made.sparkContext.setLogLevel("ERROR" if quiet else "WARN")
    return made


def activate(session: SparkSession) -> None:
    """Make a session the active one of this thread: without one, Spark does not find sinks written in Python."""
    jvm = getattr(session, "_jvm", None)
    if jvm is not None:  # a session of Spark Connect has none
        session._get_j_spark_session_class(jvm).setActiveSession(session._jsparkSession)


def fork_session(session: SparkSession, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Return another session on the same Spark, with settings of its own that begin with the same values."""
    chosen = choose_master(master)
    if not chosen.startswith("sc://"):
        return session.newSession()
    from pyspark.sql import SparkSession

    return _prepare_remote(SparkSession.builder.remote(chosen).create(), conf)


def is_running(session: SparkSession) -> bool:
    """Return whether a session can still be used: its Java may have been killed, or its cluster may be gone."""
    spark_context = getattr(session, "sparkContext", None)
    if spark_context is None:
        return not getattr(session, "is_stopped", False)  # only a session of Spark Connect has it
    try:
        return bool(spark_context.defaultParallelism)  # Spark answers this only while it runs
    except _list_java_errors():
        return False
    except AttributeError:  # this process has stopped it
        return False


def stop_session(session: SparkSession) -> None:
    """Stop a session, its Spark and its Java, even if Java has been killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that Java did not answer
        for _ in range(2):  # if Java does not answer, the first call fails, and the second does the rest
            try:
                session.stop()
                break
            except _list_java_errors():
                logger.debug("Java has ended before its session was stopped", exc_info=True)
    if getattr(session, "sparkContext", None) is not None:
        stop_java(limits.SPARK_STOP_S_MAX)


def _list_java_errors() -> tuple[type[Exception], ...]:
    """Return what a call raises if Java has ended."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    return (Py4JError, OSError)


def count_task_slots(spark: SparkSession) -> int:
    """Return how many tasks can run at the same time; for Spark Connect, which does not report it, a fixed number."""
    spark_context = getattr(spark, "sparkContext", None)
    slots = limits.BATCH_PARTITIONS if spark_context is None else int(spark_context.defaultParallelism)
    return min(slots, limits.COPY_TASKS_MAX)


def prepare_environment(*, local: bool = True) -> None:
    """Set the environment variables that Spark reads: which Java to use, and that workers run this Python."""
    python = worker_python() if local else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    os.environ["JAVA_HOME"] = str(find_java())


def _connect(app_name: str, url: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a session on a Spark Connect server, which has its own Java and workers. Only SQL settings apply."""
    from pyspark.sql import SparkSession

    return _prepare_remote(SparkSession.builder.appName(app_name).remote(url).getOrCreate(), conf)


def _prepare_remote(session: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    from mainstem.pipeline.datasource.data_source import MainstemDataSource

    for name, value in (SQL_CONFS | dict(conf)).items():
        session.conf.set(name, value)
    session.dataSource.register(MainstemDataSource)  # the Python of the server may have got the package after its start
    return session


def find_jars() -> Path:
    """Return the directory of Spark's jars, from `SPARK_HOME` or from the installed package."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")


def _local_confs(work: Path | str | None, short_lived: bool, quiet: bool) -> dict[str, str]:
    folder = Path(work) if work is not None else user_cache_dir("spark")
    scratch = _make_scratch(folder / "scratch")
    return {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": (folder / "warehouse").resolve().as_uri(),
        JAVA_OPTIONS: " ".join([*_java_options(short_lived, quiet), f'"-Djava.io.tmpdir={scratch}"']),
    }


def _java_options(short_lived: bool, quiet: bool) -> list[str]:
    jars = find_jars()
    archive = class_archive_path(Path(os.environ["JAVA_HOME"]), jars) if jars.is_dir() else None
    options = [SHORT_LIVED_OPTIONS] if short_lived else []
    if archive and is_usable(archive):  # `mainstem pipeline prepare` has written it
        options.append(use_options(archive))
    if quiet and not has_logging_configuration():
        options.append(f"-Dlog4j2.configurationFile={install_configuration().as_uri()}")
    return options


def _start_java(confs: Mapping[str, str], quiet: bool) -> None:
    """Start Java, unless it is running, at a lower priority than this program.

    On Linux each thread has its own priority, which child processes inherit. A separate thread leaves the others as
    they are.
    """
    from pyspark import SparkConf, SparkContext

    niceness = read_niceness()

    def start() -> None:
        if niceness:
            enter_background(niceness)
        with use_quiet_java() if quiet else nullcontext():
            SparkContext._ensure_initialized(conf=SparkConf().setAll(list(confs.items())))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(start).result()


def read_niceness() -> int:
    text = os.environ.get(NICENESS_VARIABLE, str(NICENESS))
    if not (text.isdecimal() and int(text) <= NICENESS_MAX):
        raise BadOption(f"{NICENESS_VARIABLE} must be a number from 0 to {NICENESS_MAX}, not {text!r}")
    return int(text)


def stop_java(wait_s: float = limits.CLASS_ARCHIVE_S_MAX) -> None:
    """Stop the Java of this process after its sessions, and wait until it has written its files; kill it after
    `wait_s`."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _make_scratch(folder: Path) -> Path:
    """Return a new directory for the temporary files of this process, which a killed Spark leaves behind."""
    _sweep(folder)
    mine = folder.resolve() / str(os.getpid())
    mine.mkdir(parents=True, exist_ok=True)
    return mine


def _sweep(scratch: Path) -> None:
    """Remove the scratch files of killed processes. Each process has a directory named after its id."""
    for folder in scratch.iterdir() if scratch.is_dir() else ():
        if folder.name.isdigit() and not Path("/proc", folder.name).exists() and Path("/proc").exists():
            shutil.rmtree(folder, ignore_errors=True)
