"""A SparkSession that is configured for the log, on this machine or on a cluster."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem import limits
from mainstem.errors import BadOption, MissingSpark
from mainstem.pipeline.cache_dir import user_cache_dir
from mainstem.pipeline.spark.class_archive import class_archive_path, is_usable, use_options
from mainstem.pipeline.spark.java import find_java
from mainstem.pipeline.spark.master import choose_master
from mainstem.pipeline.spark.python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
) -> SparkSession:
    """Return the running session, or start a new one.

    `master` is a Spark master, or `sc://host:port` for Spark Connect. The default is `MAINSTEM_SPARK_MASTER`, or else
    `local[*]`. `work` is the directory in which a local Spark keeps its scratch files and warehouse. `conf` overrides
    every setting made here. A `short_lived` local Spark warms up sooner, but is slower in the long run.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingSpark("the package pyspark is not installed") from None
    master = choose_master(master)
    if master.startswith("sc://"):
        return _connect(app_name, master, conf or {})
    local = master.startswith("local")
    prepare_environment(local=local)
    chosen = (
        SQL_CONFS | (LOCAL_CONFS | _java_confs(short_lived) | _work_confs(work) if local else {}) | dict(conf or {})
    )
    if local:
        _start_java(chosen)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    # In a thread without an active session, Spark does not find sinks that are written in Python.
    SparkSession._get_j_spark_session_class(made._jvm).setActiveSession(made._jsparkSession)
    made.sparkContext.setLogLevel("ERROR" if local else "WARN")
    return made


def count_task_slots(spark: SparkSession) -> int:
    """Return how many tasks can run at the same time; for Spark Connect, which does not report it, a fixed number."""
    spark_context = getattr(spark, "_sc", None)
    slots = limits.BATCH_SPLITS if spark_context is None else int(spark_context.defaultParallelism)
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

    made = SparkSession.builder.appName(app_name).remote(url).getOrCreate()
    for name, value in (SQL_CONFS | dict(conf)).items():
        made.conf.set(name, value)
    return made


def find_jars() -> Path:
    """Return the directory of Spark's jars, from `SPARK_HOME` or from the installed package."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")


def _java_confs(short_lived: bool) -> dict[str, str]:
    jars = find_jars()
    archive = class_archive_path(Path(os.environ["JAVA_HOME"]), jars) if jars.is_dir() else None
    options = [SHORT_LIVED_OPTIONS] if short_lived else []
    if archive and is_usable(archive):  # `mainstem pipeline prepare` has written it
        options.append(use_options(archive))
    return {JAVA_OPTIONS: " ".join(options)} if options else {}


def _start_java(confs: Mapping[str, str]) -> None:
    """Start Java, unless it is running, at a lower priority than this program.

    On Linux each thread has its own priority, which child processes inherit. A separate thread leaves the others as
    they are.
    """
    from pyspark import SparkConf, SparkContext

    niceness = read_niceness()

    def start() -> None:
        if sys.platform == "linux":
            mine = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, mine, max(niceness, os.getpriority(os.PRIO_PROCESS, mine)))
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(confs.items())))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(start).result()


def read_niceness() -> int:
    text = os.environ.get(NICENESS_VARIABLE, str(NICENESS))
    if not (text.isdecimal() and int(text) <= NICENESS_MAX):
        raise BadOption(f"{NICENESS_VARIABLE} must be a number from 0 to {NICENESS_MAX}, not {text!r}")
    return int(text)


def stop_java() -> None:
    """Stop the Java of this process after its sessions, and wait until it has written its files."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait(limits.CLASS_ARCHIVE_S_MAX)


def _work_confs(work: Path | str | None) -> dict[str, str]:
    folder = Path(work) if work is not None else user_cache_dir("spark")
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    _sweep(scratch)
    return {
        "spark.local.dir": str((scratch / str(os.getpid())).resolve()),
        "spark.sql.warehouse.dir": (folder / "warehouse").resolve().as_uri(),
    }


def _sweep(scratch: Path) -> None:
    """Remove the scratch files of killed processes. Each process has a directory named after its id."""
    for folder in scratch.iterdir():
        if folder.name.isdigit() and not Path("/proc", folder.name).exists() and Path("/proc").exists():
            shutil.rmtree(folder, ignore_errors=True)
