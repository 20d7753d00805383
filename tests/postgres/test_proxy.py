"""Two nodes behind nginx, with the very configuration of `deploy/`: TLS, caching, collapsing, and a node that dies."""

import datetime
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mainstem.testing.server import ServerProcess

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
TEXT = {"content-type": "text/plain"}
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


def make_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "cert.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )


class Proxy:
    def __init__(self, program: str, folder: Path, nodes: list[ServerProcess]) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        make_certificate(folder)
        text = CONFIGURATION.read_text()
        for old, new in {
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "/etc/ssl/streams.pem": f"{folder}/cert.pem",
            "/etc/ssl/streams.key": f"{folder}/cert.key",
            "/var/cache/nginx/mainstem": f"{folder}/cache",
            "node-1.internal:4437": "{}:{}".format(*nodes[0].address),
            "node-2.internal:4437": "{}:{}".format(*nodes[1].address),
        }.items():
            assert old in text, f"{old} is no longer in {CONFIGURATION.name}"
            text = text.replace(old, new)
        (folder / "mainstem.conf").write_text(text)
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(OUTER.format(folder=folder, user=user))
        command = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.url = f"https://localhost:{self.port}"
        deadline_s = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                assert self._process.poll() is None, (folder / "error.log").read_text()
                assert time.monotonic() < deadline_s
                time.sleep(0.02)

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=40, trust_env=False, verify=False)

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)

    def asked(self, method: str, path: str) -> list[list[str]]:
        """What was asked for a path: status, what the cache said, and which nodes were asked ('-' for none)."""
        lines = [line.split(" ", 4) for line in (self.folder / "access.log").read_text().splitlines()]
        return [line[2:] for line in lines if line[0] == method and line[1] == path]

    def origin_requests(self, path: str) -> int:
        return sum(line[2] != "-" for line in self.asked("GET", path))


@pytest.fixture
def nodes(start_nodes) -> list[ServerProcess]:
    return start_nodes(2)


@pytest.fixture
def proxy(nodes, tmp_path) -> Iterator[Proxy]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("needs nginx (apt-get install nginx)")
    folder = tmp_path / "nginx"
    folder.mkdir()
    proxy = Proxy(program, folder, nodes)
    yield proxy
    proxy.close()


def test_the_proxy_ends_tls_and_urls_say_so(proxy):
    with proxy.client() as client:
        made = client.put("/v1/stream/a", headers=TEXT)
        assert made.status_code == 201
        assert made.headers["location"] == f"{proxy.url}/v1/stream/a"


def test_pages_are_served_from_the_cache(proxy):
    path = "/v1/stream/page"
    with proxy.client() as client:
        client.put(path, headers=TEXT, content=b"x" * 1000)
        bodies = {client.get(f"{path}?offset=-1").content for _ in range(50)}
    assert bodies == {b"x" * 1000}
    assert proxy.origin_requests(f"{path}?offset=-1") == 1


def test_many_equal_long_polls_are_one_request_to_the_nodes(proxy, nodes):
    path = "/v1/stream/live"
    readers = 40
    with proxy.client() as client:
        offset = client.put(path, headers=TEXT).headers["stream-next-offset"]
    question = f"{path}?offset={offset}&live=long-poll"

    def read(number: int) -> bytes:
        with proxy.client() as own:
            return own.get(question).content

    with ThreadPoolExecutor(readers) as pool:
        waiting = [pool.submit(read, number) for number in range(readers)]
        time.sleep(1.0)  # let them arrive; those that come later are served from the cache all the same
        with httpx2.Client(base_url=nodes[0].url, timeout=10, trust_env=False) as writer:
            assert writer.post(path, headers=TEXT, content=b"news").status_code == 204
        assert {job.result(30) for job in waiting} == {b"news"}
    assert len(proxy.asked("GET", question)) == readers
    assert proxy.origin_requests(question) == 1


def test_sse_and_tail_reads_are_not_kept(proxy, nodes):
    path = "/v1/stream/fresh"
    with proxy.client() as client, httpx2.Client(base_url=nodes[1].url, timeout=10, trust_env=False) as direct:
        client.put(path, headers=TEXT, content=b"a")
        for number in range(5):
            direct.post(path, headers=TEXT, content=b"%d" % number)
            assert client.get(f"{path}?tail=1").content == b"%d" % number
    assert proxy.origin_requests(f"{path}?tail=1") == 5
    heard: list[str] = []

    def listen() -> None:
        with proxy.client() as own, own.stream("GET", f"{path}?offset=now&live=sse") as response:
            for line in response.iter_lines():
                heard.append(line)
                if line == "data:last":
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    with httpx2.Client(base_url=nodes[0].url, timeout=10, trust_env=False) as writer:
        while not heard:  # its first event says where it begins
            time.sleep(0.01)
        writer.post(path, headers=TEXT, content=b"last")
    listener.join(10)
    assert "data:last" in heard


def test_a_node_that_dies_is_passed_over(proxy, nodes):
    path = "/v1/stream/kept"
    with proxy.client() as client:
        client.put(path, headers=TEXT)
        taken = 0
        for number in range(200):
            if number == 60:
                nodes[0].kill()
            producer = TEXT | {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(taken)}
            reply = client.post(path, headers=producer, content=b"%d;" % taken)
            if reply.status_code in (200, 204):
                taken += 1
            else:  # the client's own retry, with the same number
                assert reply.status_code in (502, 503, 504), reply.text
        assert taken > 150
    with httpx2.Client(base_url=nodes[1].url, timeout=10, trust_env=False) as direct:
        assert direct.get(path).content == b"".join(b"%d;" % number for number in range(taken))
