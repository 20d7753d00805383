"""Spark drivers in separate processes, which tests kill together with everything that they have started.

As a program, this file runs a query once from the stream `in` to a target, over the existing data. The rows pass a
gate: as long as the file `gate` exists, the rows of all tasks except the first wait in front of it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
GATE_S_MAX = 60.0
RUN_S_MAX = 120.0


class Driver:
    """Runs this file in a process. `plan` says what it does."""

    def __init__(self, plan: dict) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)
        environment = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "spark")}
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(plan)],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Python, Java and its workers form one group
        )

    @property
    def said(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def ending(self) -> str:
        """Return its output, for the error of a wait that timed out."""
        return self.said

    def kill(self) -> None:
        """Send SIGKILL to the driver, Java, and the workers."""
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def close(self) -> None:
        self.kill()
        self._log.close()


def pass_gate(gate: str):
    """Lets batches of rows through unless the gate is shut. The first task is never held."""

    def wait(batches):
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for batch in batches:
            if task.partitionId() > 0:
                Path(f"{gate}.reached").touch()
                deadline_s = time.monotonic() + GATE_S_MAX
                while os.path.exists(gate) and time.monotonic() < deadline_s:
                    time.sleep(0.01)
            yield batch

    return wait


def turn_around():
    """Return the same rows in another order."""

    def turn(batches):
        for batch in batches:
            yield batch.take(list(range(batch.num_rows - 1, -1, -1)))

    return turn


def run(spark, plan: dict) -> None:
    """Run the query once. Functions for workers are defined here, so that the workers need not import this module."""
    reader = spark.readStream.format("mainstem").option("url", plan["url"]).option("streams", "in")
    frame = reader.options(**plan.get("reading", {})).option("schema", "n INT").load().select("n")
    if plan.get("gate"):
        frame = frame.mapInArrow(pass_gate(plan["gate"]), "n INT")
    if plan.get("turned"):
        frame = frame.mapInArrow(turn_around(), "n INT")
    writer = frame.writeStream.format("mainstem").option("url", plan["url"]).options(**plan["writing"])
    query = writer.option("checkpointLocation", plan["checkpoint"]).trigger(availableNow=True).start()
    assert query.awaitTermination(RUN_S_MAX)


def main() -> None:
    from mainstem.pipeline import session

    plan = json.loads(sys.argv[1])
    run(session("driver", "local[2]", work=plan["work"]), plan)


if __name__ == "__main__":
    main()
