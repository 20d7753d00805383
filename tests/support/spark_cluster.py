"""A standalone Spark cluster from the installed package: a master, workers, and a Spark Connect server."""

import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from mainstem.pipeline.spark.java import find_java
from tests.support.waits import eventually

SPARK_HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_S_MAX = 100.0  # a few seconds, but not on a busy machine
HOST = "127.0.0.1"
EXECUTOR = {"spark.executor.cores": "1", "spark.executor.memory": "512m", "spark.driver.memory": "512m"}
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.sql.shuffle.partitions": "2",
}


def submit_arguments(confs: Mapping[str, str], *more: str) -> str:
    """Return a value of PYSPARK_SUBMIT_ARGS for drivers of this cluster."""
    given = " ".join(f"--conf '{name}={value}'" for name, value in {**EXECUTOR, **SMALL, **confs}.items())
    return " ".join([given, *more, "pyspark-shell"])


class SparkDaemon:
    """One of Spark's programs in a process. What it prints goes to a file."""

    def __init__(self, program: str, *arguments: str, environment: Mapping[str, str], folder: Path) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this object)
        fixed = {"JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
        fixed |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_DIRS": str(folder), "SPARK_LOG_DIR": str(folder)}
        self._process = subprocess.Popen(
            [SPARK_HOME / "bin" / program, *arguments],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, **fixed, **environment},
            start_new_session=True,
        )

    @property
    def said(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def await_line(self, pattern: str) -> str:
        """Wait until it prints a line that matches, and return the first group."""
        found = eventually(
            lambda: re.search(pattern, self.said),
            pattern,
            within_s=START_S_MAX,
            unless=lambda: None if self.running else self.said,
        )
        return found[1]

    def children(self) -> list[int]:
        """Return the ids of the processes that it has started: those of a worker are executors."""
        return _find_children(self._process.pid)

    def kill(self) -> None:
        """Send SIGKILL to it and to what it has started."""
        for pid in [*self.children(), self._process.pid]:
            if self.running or pid != self._process.pid:
                _kill(pid)
        self._process.wait(30)

    def stop(self) -> None:
        """End it in good order, so that it deletes its files; kill it if it does not end."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self._log.close()


class SparkCluster:
    """A master and workers with one core each. Executors inherit the environment of their worker."""

    def __init__(self, folder: Path, environment: Mapping[str, str], workers: int = 2) -> None:
        self._folder = folder
        self._environment = environment
        flags = ("--host", HOST, "--port", "0", "--webui-port", "0")
        self._master = self._start(f"{DEPLOY}.master.Master", *flags)
        self.workers: list[SparkDaemon] = []
        try:
            self.url = self._master.await_line(r"Starting Spark master at (spark://\S+)")
            for _ in range(workers):
                self.add_worker()
            self.await_workers()
        except BaseException:
            self.close()
            raise

    def add_worker(self) -> SparkDaemon:
        work = self._folder / f"worker-{len(self.workers)}"
        flags = ("--host", HOST, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        worker = self._start(f"{DEPLOY}.worker.Worker", *flags, "--work-dir", str(work), self.url)
        self.workers.append(worker)
        return worker

    def await_workers(self) -> None:
        for worker in self.workers:
            if worker.running:
                worker.await_line(r"Successfully registered with master (\S+)")

    def executors(self) -> list[int]:
        """Return the process ids of all executors."""
        return [pid for worker in self.workers if worker.running for pid in worker.children()]

    def read_logs(self) -> dict[str, str]:
        """Return what the master, the workers and all executors have printed, by name."""
        daemons = {"master": self._master} | {f"worker {at}": worker for at, worker in enumerate(self.workers)}
        files = self._folder.glob("worker-*/*/*/std*")
        executors = {f"executor {file}": file.read_text(errors="replace") for file in files}
        return {name: daemon.said for name, daemon in daemons.items()} | executors

    def close(self) -> None:
        for daemon in [*self.workers, self._master]:
            daemon.stop()

    def _start(self, *arguments: str) -> SparkDaemon:
        return SparkDaemon("spark-class", *arguments, environment=self._environment, folder=self._folder)


class ConnectServer(SparkDaemon):
    """A Spark Connect server, which is the driver of a cluster."""

    def __init__(self, master: str, folder: Path, environment: Mapping[str, str], confs: Mapping[str, str]) -> None:
        port = str(_find_port())
        self.url = f"sc://{HOST}:{port}"
        given = {**EXECUTOR, **SMALL, "spark.connect.grpc.binding.port": port, **confs}
        flags = [text for name, value in given.items() for text in ("--conf", f"{name}={value}")]
        memory = {"SPARK_DAEMON_MEMORY": "512m"}  # spark-submit gives it to this driver
        super().__init__(
            "spark-submit",
            *("--class", CONNECT, "--master", master, *flags),
            environment={**environment, **memory},
            folder=folder,
        )
        try:
            self.await_line("(Spark Connect server started)")
        except BaseException:
            self.stop()
            raise


def kill_executor(cluster: SparkCluster) -> int:
    """Kill one executor with SIGKILL, and return its process id."""
    pid = eventually(cluster.executors)[0]
    _kill(pid)
    return pid


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _find_children(parent: int) -> list[int]:
    """Return the running processes that any thread of the parent has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
