"""Spark drivers in separate processes, since a process can have only one session, and tests kill them.

As a program, this file runs a streaming query, or jobs as `mainstem pipeline` does, or both, in one session.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUERY_S_MAX = 150


class Driver:
    """Runs this file in a process. `plan` says what it does."""

    def __init__(self, plan: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(plan)],
            stdout=self._log,
            stderr=self._errors,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            cwd=ROOT,
            start_new_session=True,  # Python and Java form one group
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def ending(self) -> str:
        return _read(self._log) + _read(self._errors)

    def wait(self) -> None:
        """Wait for the end, which must be a success."""
        assert self._process.wait(300) == 0, self.ending

    def summaries(self) -> list[dict[str, Any]]:
        """Wait for the end, and return the summary of each job. All of them must have succeeded."""
        self.wait()
        done = [json.loads(line) for line in _read(self._log).splitlines()]
        assert not [one["job"] for one in done if one["code"]], self.ending
        return [one["summary"] for one in done]

    def kill(self) -> None:
        """Send SIGKILL to Python and Java."""
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def close(self) -> None:
        self.kill()
        self._log.close()
        self._errors.close()


def _read(file: Any) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


def run_jobs(jobs: Sequence[Sequence[str]]) -> None:
    """Run commands of `mainstem pipeline`, and print for each its exit code and its summary."""
    from mainstem.cli import main

    for arguments in jobs:
        printed = io.TextIOWrapper(io.BytesIO(), "utf-8")  # it has a buffer, as standard output has
        code: object = 0
        try:
            with redirect_stdout(printed):
                main(["pipeline", *arguments, "--json"], prog_name="mainstem")
        except SystemExit as ended:
            code = ended.code
        printed.flush()
        printed.seek(0)
        text = printed.read().strip()
        print(json.dumps({"job": arguments[0], "code": code, "summary": json.loads(text) if text else {}}), flush=True)


def run_query(plan: Mapping[str, Any]) -> None:
    """Copy the stream `in` to `out` with the exactly-once sink, over the existing data."""
    from mainstem.pipeline import session

    spark = session("query", plan["master"])
    reader = spark.readStream.format("mainstem").option("url", plan["url"]).options(**plan["reading"])
    rows = reader.option("schema", "n INT").load("in").select("n")
    writer = rows.writeStream.format("mainstem").option("url", plan["url"]).option("stream", "out")
    writer = writer.options(**plan["writing"]).option("checkpointLocation", plan["checkpoint"])
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_S_MAX)


def show_code(master: str) -> None:
    """Print from where the executors import the packages, and that no setting of Spark holds a credential."""
    from mainstem.pipeline import session

    spark = session("code", master)

    def find(batches: Any) -> Any:
        import pyarrow as pa

        import mainstem

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [mainstem.__file__]})

    paths = [row["path"] for row in spark.range(0, 2, 1, 2).mapInArrow(find, "path STRING").collect()]
    print(json.dumps({"job": "code", "code": 0, "summary": {"mainstem": paths}}), flush=True)
    settings = str(spark.sparkContext.getConf().getAll())
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in settings


def main() -> None:
    plan = json.loads(sys.argv[1])
    if "where" in plan:
        show_code(plan["where"])
    if "checkpoint" in plan:
        run_query(plan)
    run_jobs(plan.get("jobs", []))


if __name__ == "__main__":
    main()
