import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mainstem.testing.server import ServerProcess
from tests.support.nginx import Nginx

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "caching-and-proxies.md"
# The proxy lets nobody reach this stream: a request that reaches it has bypassed the proxy.
FORBIDDEN = "location = /v1/stream/secret { return 403; }\n\n    location /v1/sync {"


class Site(NamedTuple):
    node: ServerProcess
    proxy: Nginx


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One node on SQLite behind nginx, configured as in the guide."""
    folder = tmp_path_factory.mktemp("site")
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    with ServerProcess(folder / "data") as node:
        address = "{}:{}".format(*node.address)
        replaced = {"127.0.0.1:4437": address, "location /v1/sync {": FORBIDDEN}
        proxy = Nginx(folder, found[1], replaced)
        try:
            yield Site(node, proxy)
        finally:
            proxy.close()
