"""Only a whole run beside Electric's server replaces the published figures."""

from argparse import Namespace
from pathlib import Path

import pytest
from bench.__main__ import choose_output
from bench.peers import CACHE, HERE, Peer

WHOLE = {"quick": False, "only": None, "output": None}


def make_peers(*names):
    return [Peer(name, "", "", lambda port, data: []) for name in names]


def test_a_whole_run_writes_the_published_figures():
    assert choose_output(Namespace(**WHOLE), make_peers("mainstem", "electric")) == HERE / "results"


@pytest.mark.parametrize("partial", [{"quick": True}, {"only": "append"}])
def test_a_partial_run_does_not(partial):
    assert choose_output(Namespace(**WHOLE | partial), make_peers("mainstem", "electric")) == CACHE / "results"


@pytest.mark.parametrize("names", [["mainstem"], ["mainstem", "node"], ["electric"]])
def test_a_run_without_one_of_the_servers_does_not(names):
    """Even if the server was asked for, and could not be built."""
    assert choose_output(Namespace(**WHOLE), make_peers(*names)) == CACHE / "results"


def test_the_folder_can_be_chosen():
    chosen = Namespace(**WHOLE | {"output": Path("elsewhere")})
    assert choose_output(chosen, make_peers("mainstem", "electric")) == Path("elsewhere")
