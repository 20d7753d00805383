"""Every parser: the corpus, and inputs that resemble it. `python -m mainstem.testing.fuzz` runs for longer."""

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from mainstem.testing.fuzz.corpus import corpus_file, read_corpus
from mainstem.testing.fuzz.mutation import mutate_inputs
from mainstem.testing.fuzz.targets import load_targets
from tests.support.examples import examples

CORPUS = Path(__file__).parent / "corpus"
CORPUS_BYTES_MAX = 300_000
INPUTS = 200
INPUTS_IN_ALL_TESTS = 30_000
TARGETS = load_targets()

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: a parser that warns would warn thousands of times."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@each_target
def test_known_inputs_and_some_that_resemble_them(target, chance):
    known = read_corpus(CORPUS, target)
    for data in (*known, *islice(mutate_inputs(target, known, chance), INPUTS)):
        target.check(data)


@pytest.mark.slow
@each_target
def test_many_inputs_that_resemble_known_ones(target, chance):
    known = read_corpus(CORPUS, target)
    for data in islice(mutate_inputs(target, known, chance), examples(INPUTS_IN_ALL_TESTS)):
        target.check(data)


@each_target
def test_most_seeds_are_accepted(target):
    """Valid seeds lead a fuzzer deeper than inputs that the first check refuses."""
    accepted = 0
    for seed in target.seeds:
        try:
            target.run(seed)
            accepted += 1
        except target.documented:
            pass
    assert 2 * accepted >= len(target.seeds)


def test_the_corpus_is_small_and_belongs_to_the_targets():
    files = set(CORPUS.iterdir())
    assert files == {corpus_file(CORPUS, target) for target in TARGETS.values()}
    assert sum(file.stat().st_size for file in files) <= CORPUS_BYTES_MAX
