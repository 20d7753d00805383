"""Prometheus as a process, with our configuration and our rules: only times, addresses and files are replaced in it."""

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx2

from tests.support.requirements import find_program
from tests.support.waits import eventually

REMEDY = "apt install prometheus"
FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = FOLDER / "mainstem.rules.yml"


def run_promtool(*arguments: str, input_: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [find_program("promtool", REMEDY), *arguments]
    return subprocess.run(command, input=input_, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


class Prometheus:
    """Scrapes a server every second between `start` and `close`."""

    def __init__(self, folder: Path, target: tuple[str, int], token: str = "") -> None:
        self.folder = folder
        configuration = (FOLDER / "prometheus.yml").read_text()
        (folder / "metrics.token").write_text(token)
        for old, new in {
            "15s": "1s",
            '"node-1:4437", "node-2:4437"': f'"{target[0]}:{target[1]}"',
            "/run/secrets/metrics.token": str(folder / "metrics.token"),
            "[mainstem.rules.yml]": f"[{RULES}]",
        }.items():
            assert old in configuration, f"{old} is no longer in the configuration"
            configuration = configuration.replace(old, new)
        (folder / "prometheus.yml").write_text(configuration)

    def __enter__(self) -> "Prometheus":
        program = find_program("prometheus", REMEDY)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [
            program,
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/metrics",
            "--storage.tsdb.retention.size=64MB",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._output = (self.folder / "output").open("wb")
        self._process = subprocess.Popen(
            command, stdout=self._output, stderr=self._output, env=os.environ | {"GOMAXPROCS": "1"}
        )
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)
        try:
            eventually(self._is_ready, "Prometheus is ready", unless=self._find_failure)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._output.close()

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def _is_ready(self) -> bool:
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx2.TransportError:
            return False

    def _find_failure(self) -> str | None:
        return None if self._process.poll() is None else self.output

    def get(self, path: str, **parameters: str) -> Any:
        """Return what the HTTP API of Prometheus knows."""
        reply = self.client.get(f"/api/v1/{path}", params=parameters)
        answer = reply.json()
        assert answer["status"] == "success", (parameters, answer.get("error"))
        return answer["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the current series of an expression: their labels and values."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]
