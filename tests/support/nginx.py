"""nginx as a process, with one of our configurations: only names, addresses and files are replaced in it."""

import os
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import httpx2

from tests.support.certificates import make_certificate
from tests.support.requirements import find_program
from tests.support.waits import eventually

OUTER = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    log_format asked '$request_method $request_uri $status $upstream_cache_status $upstream_addr';
    access_log {folder}/access.log asked;
    include {folder}/mainstem.conf;
}}
"""


class Nginx:
    def __init__(self, folder: Path, configuration: str, replaced: dict[str, str]) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        make_certificate(folder)
        for old, new in {
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "/etc/ssl/streams.pem": f"{folder}/cert.pem",
            "/etc/ssl/streams.key": f"{folder}/cert.key",
            "/var/cache/nginx/mainstem": f"{folder}/cache",
            **replaced,
        }.items():
            assert old in configuration, f"{old} is no longer in the configuration"
            configuration = configuration.replace(old, new)
        (folder / "mainstem.conf").write_text(configuration)
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(OUTER.format(folder=folder, user=user))
        command = [
            find_program("nginx", "apt install nginx-light"),
            "-p",
            str(folder),
            "-c",
            str(folder / "nginx.conf"),
            "-e",
            str(folder / "error.log"),
        ]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.url = f"https://localhost:{self.port}"
        eventually(self._listens, "nginx listens", unless=lambda: self._process.poll() and self._errors)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def _errors(self) -> str:
        return (self.folder / "error.log").read_text()

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=40, trust_env=False, verify=False)

    def connect(self, timeout_s: float) -> ssl.SSLSocket:
        """Open a connection for bytes that no HTTP client would send."""
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", self.port), timeout_s)
        return trusting.wrap_socket(plain, server_hostname="localhost")

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)

    def asked(self, method: str, path: str) -> list[list[str]]:
        """Return each request for a path: its status, cache status, and the nodes that nginx asked ('-' for none)."""
        lines = [line.split(" ", 4) for line in (self.folder / "access.log").read_text().splitlines()]
        return [line[2:] for line in lines if line[0] == method and line[1] == path]

    def origin_requests(self, path: str, *, requests: int) -> int:
        """Return how many of this many requests reached a node. nginx logs a request only after its reply."""
        eventually(lambda: len(self.asked("GET", path)) >= requests)
        lines = self.asked("GET", path)
        assert len(lines) == requests
        return sum(line[2] != "-" for line in lines)
