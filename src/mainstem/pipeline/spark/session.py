"""A SparkSession that is set up for the log, on this machine or on a cluster."""

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
    "spark.sql.python.filterPushdown.enabled": "true",  # without it Spark refuses a source that can push filters down
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Else a query that was killed while its first batch was planned could never start again.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
LOCAL_CONFS = {
    "spark.driver.bindAddress": "127.0.0.1",  # nobody outside has any business with it
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
SHORT_LIVED_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""Java compiles at once and not as well as it could: in a few minutes its better compiler takes more than it gives."""

NICENESS = 12
"""Of a local Spark: it takes what is left over when the server on the same machine, or anybody else, has work."""
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
    """The running session, or a new one.

    `master` is `local[*]` unless given here or in `MAINSTEM_SPARK_MASTER`: a master of Spark's own, or `sc://host:port`
    for Spark Connect. `work` is where a local Spark keeps its scratch files and its warehouse. `conf` overrides every
    choice made here. A local Spark that is `short_lived` is up to speed sooner, and does not get as fast in the end.
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
    # Of this thread: where it has none, Spark does not find a sink that is written in Python.
    SparkSession._get_j_spark_session_class(made._jvm).setActiveSession(made._jsparkSession)
    made.sparkContext.setLogLevel("ERROR" if local else "WARN")
    return made


def count_task_slots(spark: SparkSession) -> int:
    """How many tasks can run at the same time. A Spark Connect server does not report it, and gets a fixed number."""
    spark_context = getattr(spark, "_sc", None)
    slots = limits.BATCH_SPLITS if spark_context is None else int(spark_context.defaultParallelism)
    return min(slots, limits.COPY_TASKS_MAX)


def prepare_environment(*, local: bool = True) -> None:
    """What Spark's launcher and workers look up: which Java, and that workers run this very Python."""
    python = worker_python() if local else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    os.environ["JAVA_HOME"] = str(find_java())


def _connect(app_name: str, url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server. Its Java and its workers are the server's; only SQL settings can be set."""
    from pyspark.sql import SparkSession

    made = SparkSession.builder.appName(app_name).remote(url).getOrCreate()
    for name, value in (SQL_CONFS | dict(conf)).items():
        made.conf.set(name, value)
    return made


def find_jars() -> Path:
    """Spark's, of this installation or of the one that `SPARK_HOME` names."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")


def _java_confs(short_lived: bool) -> dict[str, str]:
    jars = find_jars()
    archive = class_archive_path(Path(os.environ["JAVA_HOME"]), jars) if jars.is_dir() else None
    options = [SHORT_LIVED_OPTIONS] if short_lived else []
    if archive and is_usable(archive):  # of `mainstem pipeline prepare`
        options.append(use_options(archive))
    return {JAVA_OPTIONS: " ".join(options)} if options else {}


def _start_java(confs: Mapping[str, str]) -> None:
    """Start Java, unless it runs already, at a lower priority than this program.

    On Linux a priority belongs to a thread and is inherited, so one of its own is what it takes to change no other.
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
        raise BadOption(f"{NICENESS_VARIABLE} is {text!r}; it must be a number from 0 to {NICENESS_MAX}")
    return int(text)


def stop_java() -> None:
    """End the Java of this process, whose sessions have been stopped, and wait for it: it may have files to write."""
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
    """A killed Spark leaves its scratch files behind; each process has a folder named by its id."""
    for folder in scratch.iterdir():
        if folder.name.isdigit() and not Path("/proc", folder.name).exists() and Path("/proc").exists():
            shutil.rmtree(folder, ignore_errors=True)
