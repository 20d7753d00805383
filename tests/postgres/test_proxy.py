"""Two nodes behind nginx, with the configuration of `deploy/`: TLS, caching, request collapsing, and a dead node."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from mainstem.testing.server import ServerProcess
from tests.support.nginx import Nginx
from tests.support.waits import eventually

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
TEXT = {"content-type": "text/plain"}


@pytest.fixture
def nodes(start_nodes) -> list[ServerProcess]:
    return start_nodes(2)


@pytest.fixture
def proxy(nodes, tmp_path) -> Iterator[Nginx]:
    folder = tmp_path / "nginx"
    folder.mkdir()
    addresses = {f"node-{number}.internal:4437": "{}:{}".format(*node.address) for number, node in enumerate(nodes, 1)}
    proxy = Nginx(folder, CONFIGURATION.read_text(), addresses)
    yield proxy
    proxy.close()


def test_the_proxy_terminates_tls_and_urls_use_https(proxy):
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
    assert proxy.origin_requests(f"{path}?offset=-1", requests=50) == 1


def test_many_identical_long_polls_become_one_request_to_the_nodes(proxy, nodes):
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
        time.sleep(1.0)  # let them arrive; later ones are served from the cache anyway
        with httpx2.Client(base_url=nodes[0].url, timeout=10, trust_env=False) as writer:
            assert writer.post(path, headers=TEXT, content=b"news").status_code == 204
        assert {job.result(30) for job in waiting} == {b"news"}
    assert proxy.origin_requests(question, requests=readers) == 1


def test_sse_and_tail_reads_are_not_cached(proxy, nodes):
    path = "/v1/stream/fresh"
    with proxy.client() as client, httpx2.Client(base_url=nodes[1].url, timeout=10, trust_env=False) as direct:
        client.put(path, headers=TEXT, content=b"a")
        for number in range(5):
            direct.post(path, headers=TEXT, content=b"%d" % number)
            assert client.get(f"{path}?tail=1").content == b"%d" % number
    assert proxy.origin_requests(f"{path}?tail=1", requests=5) == 5
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
        eventually(lambda: heard, "the first event, which says where the response begins")
        writer.post(path, headers=TEXT, content=b"last")
    listener.join(10)
    assert "data:last" in heard


def test_the_proxy_skips_a_dead_node(proxy, nodes):
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
            else:  # the client retries with the same number
                assert reply.status_code in (502, 503, 504), reply.text
        assert taken > 150
    with httpx2.Client(base_url=nodes[1].url, timeout=10, trust_env=False) as direct:
        assert direct.get(path).content == b"".join(b"%d;" % number for number in range(taken))
