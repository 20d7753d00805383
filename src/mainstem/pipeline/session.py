"""A SparkSession that is set up for the log, on this machine or on a cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import MissingSpark
from mainstem.pipeline.folders import cache_folder
from mainstem.pipeline.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "MAINSTEM_SPARK_MASTER"
"""The environment variable that names the master when the caller does not."""

SQL_CONFS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",  # without it Spark refuses a source that can push filters down
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
LOCAL_CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def session(
    app_name: str = "mainstem",
    master: str | None = None,
    *,
    work: Path | str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one.

    `master` is `local[*]` unless given here or in `MAINSTEM_SPARK_MASTER`: anything Spark takes, or `sc://host:port`
    for Spark Connect. `work` is where a local Spark keeps its scratch files and its warehouse. `conf` overrides every
    choice made here.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingSpark("the package pyspark is not installed") from None
    master = master or os.environ.get(MASTER) or "local[*]"
    if master.startswith("sc://"):
        return _connect(app_name, master, conf or {})
    prepare_environment()
    local = master.startswith("local")
    chosen = SQL_CONFS | (LOCAL_CONFS | _work_confs(work) if local else {}) | dict(conf or {})
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR" if local else "WARN")
    return made


def prepare_environment() -> None:
    """What Spark's launcher and workers look up: which Java, and that workers run this very Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java())


def _connect(app_name: str, url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server. Its Java and its workers are the server's; only SQL settings can be set."""
    from pyspark.sql import SparkSession

    made = SparkSession.builder.appName(app_name).remote(url).getOrCreate()
    for name, value in (SQL_CONFS | dict(conf)).items():
        made.conf.set(name, value)
    return made


def _work_confs(work: Path | str | None) -> dict[str, str]:
    folder = Path(work) if work is not None else cache_folder("spark")
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
