from itertools import islice
from random import Random

from mainstem.testing.fuzz.mutation import INPUT_BYTES_MAX, mutate_inputs
from mainstem.testing.fuzz.target import Target

TARGET = Target("nothing", lambda data: None, (b"hello", b"x" * 2 * INPUT_BYTES_MAX), (b"<piece>",))


def inputs(seed, number=2_000):
    return list(islice(mutate_inputs(TARGET, TARGET.seeds, Random(seed)), number))


def test_the_seed_decides_the_inputs():
    assert inputs(1) == inputs(1) != inputs(2)


def test_inputs_differ_and_are_limited():
    found = inputs(1)
    assert len(set(found)) > 1_000
    assert max(map(len, found)) <= INPUT_BYTES_MAX


def test_the_pieces_of_a_target_are_used():
    assert any(b"<piece>" in data for data in inputs(1))
