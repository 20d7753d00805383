"""`mainstem pipeline run`: all kinds of jobs in one Spark, across failures, kills and restarts."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from mainstem.pipeline.lake.delta import load_table
from mainstem.pipeline.service.state import JobState, StateDirectory
from tests.support.command_line import PipelineShell, RunningJob
from tests.support.waits import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
START_S_MAX = 180

JOBS = """
[jobs.lake]
job = "archive"
table = "lake"
accept_loss = true  # retain does not wait for it
every = "1s"

[jobs.states]
job = "snapshot"
reducer = "lww"
key = "n"
partitions = "room-*"
every = "1d"

[jobs.counts]
job = "rollup"
into = "counts"
streams = ["orders/**"]
window = "1s"
accept-loss = true
every = "1d"

[jobs.keep]
job = "retain"
policies = "policies.toml"
every = "1d"

[jobs.files]
job = "export"
output = "out"
format = "ndjson"
stream = "orders/*"
messages = true
cron = "0 3 1 1 *"

[jobs.rows]
job = "import"
source = "in/*.ndjson"
stream = "imported"
every = "1d"

[jobs.check]
job = "audit"
every = "1d"

[jobs.bad]
job = "audit"
archive = "nowhere"
every = "1d"
"""


class RunningService:
    """A service in a process, and what it leaves on disk."""

    def __init__(self, pipeline: PipelineShell, url: str, jobs: str, *, options: str = "") -> None:
        self.pipeline = pipeline
        self.folder = pipeline.directory
        head = f'parallel = 2\n{options}\n[server]\nurl = "{url}"\nretry = "60s"\n[spark]\nmaster = "local[2]"\n'
        (self.folder / "pipeline.toml").write_text(head + 'memory = "600m"\nworker_memory = "2g"\n' + jobs)
        self.states = StateDirectory(self.folder / "mainstem-pipeline")
        self.process: RunningJob = self.start()

    def start(self) -> RunningJob:
        self.process = self.pipeline.spawn("run", "pipeline.toml", "--json")
        return self.process

    def state(self, name: str) -> JobState:
        found = self.states.read(name)
        assert found is not None
        return found

    def await_state(self, name: str, wanted: Any) -> JobState:
        """Wait until the state of a job is as `wanted` says, and return it."""

        def look() -> JobState | None:
            found = self.states.read(name)
            return found if found is not None and wanted(found) else None

        return eventually(
            look, f"{name} is not in that state", within_s=START_S_MAX, unless=lambda: self.process.ending
        )

    def find_java(self) -> int:
        """Return the process of Spark's Java."""
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
                except OSError:
                    continue
                if name == "java" and int(rest.split()[1]) == self.process.process.pid:
                    return int(folder.name)
        return 0

    def list_workers(self) -> list[Path]:
        """Return the Python workers of Spark whose memory is bounded, as directories of /proc."""
        found = []
        for limits in Path("/proc").glob("[0-9]*/limits"):
            try:
                bounded = re.search(r"^Max address space +2147483648 ", limits.read_text(), re.MULTILINE)
                session = int(limits.with_name("stat").read_text().rpartition(")")[2].split()[3])
            except OSError:
                continue
            if bounded and session == self.process.process.pid:
                found.append(limits.parent)
        return found

    def status(self) -> dict[str, Any]:
        return self.pipeline.ok("status", "pipeline.toml")


def archived(folder: Path) -> int:
    return int(load_table(str(folder / "lake")).to_pyarrow_dataset().count_rows())


def test_all_jobs_in_one_spark_across_failures_and_restarts(server, log, pipeline, tmp_path):
    rows = log.fill()
    log.append("old", [{"n": n} for n in range(50)], at_once=5)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ndjson").write_text("".join(f'{{"i": {i}}}\n' for i in range(20)))
    (tmp_path / "policies.toml").write_text('[[policy]]\nstreams = "old"\nmax_events = 10\n')
    service = RunningService(pipeline, log.url, JOBS, options='metrics = "127.0.0.1:0"')

    # Each job has run once, next to one that fails.
    for name in ("lake", "states", "counts", "keep", "rows", "check"):
        done = service.await_state(name, lambda state: state.rounds >= 1 or state.failures)
        assert done.last is not None
        assert (name, done.failures, done.last.error, done.last.faults) == (name, 0, None, 0)
    failing = service.await_state("bad", lambda state: state.failures >= 2)
    assert failing.last is not None
    assert "no Delta table" in (failing.last.error or "")
    assert service.list_workers()
    assert service.state("files").rounds == 0  # not before January
    assert len(log.read("imported")) == 20
    assert len(log.read("old")) == 10
    assert log.http.get("/v1/snapshot/room-0").status_code == 200
    before = service.status()
    assert before["running"]
    assert 0 < before["head"] <= log.head_id()
    assert before["pid"] == service.process.process.pid
    jobs = {job["name"]: job for job in before["jobs"]}
    assert list(jobs) == ["lake", "states", "counts", "keep", "files", "rows", "check", "bad"]
    assert (jobs["states"]["state"], jobs["states"]["rows"]) == ("waiting", 100)
    assert jobs["states"]["lag"] == before["head"] - jobs["states"]["committed_id"]
    assert (jobs["bad"]["state"], jobs["bad"]["rows"]) == ("failing", 0)
    assert (jobs["files"]["last_round"], jobs["files"]["schedule"]) == (None, "0 3 1 1 * (UTC)")
    assert {report["name"] for report in log.http.get("/v1/jobs").json()["jobs"]} >= {"lake", "states", "bad"}

    # A second service on the same state is refused.
    pipeline("run", "pipeline.toml").fails(7, "is in use by process", "another state directory")

    # Java is killed, and started again.
    java = service.find_java()
    os.kill(java, signal.SIGKILL)
    log.append("orders/0", [{"n": n, "shop": 0} for n in range(100, 200)])
    head = log.head_id()
    service.await_state("lake", lambda state: (state.committed_id or 0) >= head and not state.failures)
    assert service.find_java() not in (0, java)

    # The server restarts.
    server.kill()
    server.start()
    log.append("orders/1", [{"n": 1}])
    head = log.head_id()
    service.await_state("lake", lambda state: (state.committed_id or 0) >= head and not state.failures)

    service.process.process.terminate()
    ended = service.process.wait()
    assert ended.code == 0, ended
    lines = [json.loads(line) for line in ended.text.splitlines()]
    assert {line["name"] for line in lines if line["error"] is None} == set(jobs) - {"bad", "files"}
    assert {line["name"] for line in lines if line["error"] is not None} >= {"bad"}
    assert all("Traceback" not in line for line in ended.errors.splitlines()), ended.errors
    rounds = {name: service.state(name).rounds for name in jobs}
    after = service.status()
    assert (after["running"], after["pid"]) == (False, None)
    assert {job["state"] for job in after["jobs"]} == {"stopped"}
    assert archived(tmp_path) >= rows + 10

    # A service that starts again continues: a missed run happens once, and what is not due waits.
    missed = msgspec.structs.replace(service.state("files"), next_s=time.time() - 40 * 86_400)
    service.states.write("files", missed)
    service.start()
    done = service.await_state("files", lambda state: state.rounds == 1)
    assert done.next_s > time.time()
    service.await_state("lake", lambda state: state.rounds > rounds["lake"])
    service.process.process.terminate()
    assert service.process.wait().code == 0
    for name in ("states", "counts", "keep", "rows", "check"):
        assert service.state(name).rounds == rounds[name]
    exported = [line for file in (tmp_path / "out").glob("*.ndjson") for line in file.read_text().splitlines()]
    assert len(exported) == 401


def test_a_signal_ends_the_service_after_the_round_and_a_second_one_at_once(log, pipeline, tmp_path):
    rows = log.fill()
    jobs = '[jobs.lake]\njob = "archive"\ntable = "lake"\nevery = "1d"\n'
    service = RunningService(pipeline, log.url, jobs, options='metrics = "127.0.0.1:0"')
    service.await_state("lake", lambda state: state.running_s is not None)
    assert service.status()["jobs"][0]["state"] == "running"
    address = eventually(lambda: _find_metrics(service), within_s=START_S_MAX)
    assert httpx2.get(f"{address}/healthz", trust_env=False).text == "ok\n"
    running = 'mainstem_pipeline_round_running{kind="archive",name="lake"} 1'
    assert running in httpx2.get(f"{address}/metrics", trust_env=False).text.splitlines()
    service.process.process.send_signal(signal.SIGINT)
    ended = service.process.wait()
    assert ended.code == 0, ended
    [line] = [json.loads(line) for line in ended.text.splitlines()]
    assert (line["name"], line["job"], line["round"], line["rows"]) == ("lake", "archive", 1, rows)
    assert archived(tmp_path) == rows

    log.append("more", [1, 2, 3])
    service.states.write("lake", msgspec.structs.replace(service.state("lake"), next_s=0))
    service.start()
    service.await_state("lake", lambda state: state.running_s is not None)
    for _ in range(2):
        service.process.process.terminate()
        time.sleep(0.2)
    assert service.process.wait().code == -signal.SIGTERM
    assert service.status()["jobs"][0]["state"] == "interrupted"


def _find_metrics(service: RunningService) -> str:
    """Return the address of the metrics, by the socket on which the service listens."""
    pid = service.process.process.pid
    sockets = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists() or link.is_symlink()}
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = row.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            return f"http://127.0.0.1:{int(fields[1].partition(':')[2], 16)}"
    return ""
