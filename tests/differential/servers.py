"""The servers that Mainstem is compared with."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import electric, peers
from tests.differential.exchanges import Peer
from tests.differential.explanations import NODE, RUST
from tests.support.node_packages import install

PACKAGE: Final = Path(__file__).parent
NODE_PROGRAM: Final = peers.HERE / "node_peer.mjs"
RUST_PROGRAM: Final = peers.CACHE / "electric" / "bin" / electric.PROGRAM


def list_servers() -> list[str]:
    """Return the servers that can be started here. The one in Rust is not built for it."""
    return [NODE, RUST] if RUST_PROGRAM.exists() or shutil.which(electric.PROGRAM) else [NODE]


def find_node_server() -> peers.Peer:
    """Return how to start the version of the Node server that the lock file pins."""
    node = install(PACKAGE)

    def make_command(port: int, data: Path) -> list[str]:
        return [*node, str(NODE_PROGRAM), str(PACKAGE), str(port), str(data)]

    return peers.Peer(NODE, "", "", make_command)


@contextmanager
def serve_peer(name: str) -> Iterator[Peer]:
    """Run a server on an empty data folder, and connect to it."""
    with peers.serve(find_node_server() if name == NODE else peers.find_electric_peer()) as server:
        peer = Peer(name, server.port)
        try:
            yield peer
        finally:
            peer.close()
