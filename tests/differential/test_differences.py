"""Mainstem answers as the other servers do, except where an explanation says why not."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from mainstem.testing.server import ServerProcess
from tests.differential.comparison import Difference, compare_script
from tests.differential.exchanges import Peer, Reply
from tests.differential.explanations import EXPLANATIONS, NODE, explain
from tests.differential.scripts import JSON, TEXT, request, write_script
from tests.differential.servers import PACKAGE, list_servers, serve_peer
from tests.support.examples import examples
from tests.support.node_packages import assert_pinned

SCRIPTS = 200

peers = pytest.mark.parametrize("peer", list_servers())


@contextmanager
def connect(server: ServerProcess, peer: str) -> Iterator[tuple[Peer, Peer]]:
    with closing(Peer("mainstem", server.address[1])) as ours, serve_peer(peer) as theirs:
        yield ours, theirs


@pytest.mark.slow
@peers
def test_every_difference_is_explained(shared_server, peer):
    with connect(shared_server, peer) as (ours, theirs):
        for seed in range(examples(SCRIPTS)):
            found = list(compare_script(ours, theirs, f"{peer}-{seed}", write_script(seed)))
            assert not [f"script {seed}: {each}" for each in found if explain(each) is None]


@pytest.mark.slow
@peers
def test_every_explanation_is_needed(shared_server, peer):
    """An explanation can go when a newer version of the other server no longer differs."""
    with connect(shared_server, peer) as (ours, theirs):
        for number, (title, explanation) in enumerate(EXPLANATIONS.items()):
            if peer in explanation.peers:
                found = list(compare_script(ours, theirs, f"{peer}-example-{number}", explanation.script))
                assert title in map(explain, found)
                assert all(map(explain, found)), title


@pytest.mark.parametrize(
    ("step", "ours", "theirs", "stream"),
    [
        (request("POST", "s0", body=b"a", content_type=TEXT), 400, 404, Reply(404)),
        (request("POST", "s0", body=b"{", content_type=JSON), 400, 404, Reply(200, {"content-type": JSON})),
        (request("POST", "s0", body=b"{", content_type=JSON), 400, 409, Reply(200, {"content-type": JSON})),
        (request("GET", "s0", "?offset=-1"), 400, 404, Reply(404)),
        (request("PUT", "s0", content_type=TEXT), 409, 404, Reply(200)),
    ],
    ids=["nothing is malformed", "the stream exists", "no conflict", "a valid offset", "a fork without a source"],
)
def test_two_refusals_are_explained_only_if_the_step_deserves_both(step, ours, theirs, stream):
    difference = Difference(NODE, step, "status", str(ours), str(theirs), ours, theirs, (), {"s0": stream})
    assert explain(difference) is None


def test_a_script_depends_only_on_its_seed():
    assert write_script(7) == write_script(7) != write_script(8)


def test_the_lock_file_pins_packages_and_no_registry():
    assert_pinned(PACKAGE)
