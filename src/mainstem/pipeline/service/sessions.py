"""The Spark of a service: started when a job needs it, shared by all jobs, and started again if it has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.pipeline.service.definition import SparkDefinition
from mainstem.pipeline.spark.session import activate, fork_session, is_running, session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkSessions:
    """One session per job, so that no job sees the settings that another one changes. Any thread may call it."""

    def __init__(self, definition: SparkDefinition, work: Path, parallel: int, on_start: Callable[[], None]) -> None:
        """Call `on_start` whenever Spark was started, in the thread that needed it."""
        self._definition = definition
        self._work = work
        self._conf = make_conf(definition, parallel)
        self._on_start = on_start
        self._lock = threading.Lock()
        self._root: SparkSession | None = None
        self._of_jobs: dict[str, SparkSession] = {}

    def open(self, name: str) -> SparkSession:
        """Return the session of a job, and make it the active one of this thread."""
        with self._lock:
            if self._root is None:
                self._root = session("mainstem pipeline", self._definition.master, work=self._work, conf=self._conf)
                self._on_start()
            if name not in self._of_jobs:
                self._of_jobs[name] = fork_session(self._root, self._definition.master, self._conf)
            found = self._of_jobs[name]
        activate(found)
        return found

    def discard_dead(self) -> bool:
        """Forget a Spark that has ended, so that the next round starts another one. Return whether it had ended."""
        with self._lock:
            if self._root is None or is_running(self._root):
                return False
            self._stop()
            return True

    def stop(self) -> None:
        with self._lock:
            if self._root is not None:
                self._stop()

    def _stop(self) -> None:
        dead, self._root = self._root, None
        self._of_jobs.clear()
        assert dead is not None
        stop_session(dead)


def make_conf(definition: SparkDefinition, parallel: int) -> dict[str, str]:
    """Return the settings of Spark: bounds of its memory, fair shares for jobs side by side, and those of the file."""
    conf = {"spark.driver.memory": definition.memory}
    if definition.worker_memory is not None:
        conf["spark.executor.pyspark.memory"] = definition.worker_memory
    if parallel > 1:
        conf["spark.scheduler.mode"] = "FAIR"
    return conf | definition.conf
