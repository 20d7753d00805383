import gc

from mainstem.server.app import Mainstem
from mainstem.testing.simulation.runner import run_seed


def count_servers() -> int:
    """Return how many there are, without a collection of garbage: it would run what is left of them."""
    return sum(isinstance(found, Mainstem) for found in gc.get_objects())


def test_no_server_stays_in_memory_after_its_life():
    run_seed(1)
    before = count_servers()
    for seed in range(2, 6):
        run_seed(seed)
    assert count_servers() == before
