"""Care for the Python processes that run Spark's tasks."""

from __future__ import annotations

import gc

from pyspark import TaskContext

_settled = False


def settle_worker() -> None:
    """Exclude everything that this process has loaded from garbage collection. Call this at the end of a task.

    Spark collects garbage after every task. That examines each object of pyspark, pandas and Arrow, and takes about
    35 ms, longer than many tasks. Outside Spark's workers, this does nothing.
    """
    global _settled
    if not _settled and TaskContext.get() is not None:
        _settled = True
        gc.collect()
        gc.freeze()
