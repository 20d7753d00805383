"""`/client/mainstem.js`, as browsers download it."""

import httpx2

from tests.js_client.conftest import ROOT


def test_the_client_is_small(node):
    """What a page downloads. The store in memory is a file of its own, which few pages need."""
    with httpx2.Client(follow_redirects=True, headers={"accept-encoding": "gzip"}) as http:
        entry = http.get(f"{node.url}/client/mainstem.js", follow_redirects=False)
        assert (entry.status_code, entry.headers["cache-control"]) == (307, "no-cache")
        with http.stream("GET", f"{node.url}/client/mainstem.js") as reply:
            size = sum(map(len, reply.iter_raw()))
        assert reply.headers["content-encoding"] == "gzip"
        assert "immutable" in reply.headers["cache-control"]
        assert size < 14_200
        assert http.get(f"{node.url}/client/nonsense/mainstem.js").status_code == 404
        assert http.post(f"{node.url}/client/mainstem.js").status_code == 405
    assert (ROOT / "src/mainstem/browser_client/memory.js").exists()
