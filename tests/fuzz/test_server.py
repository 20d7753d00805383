"""Connections with invalid and half-valid content: the server replies with documented errors, and keeps working."""

from itertools import islice

import pytest

from mainstem.testing.fuzz.mutation import mutate_inputs
from mainstem.testing.fuzz.server import ServerUnderFuzz
from tests.support.examples import examples

CONNECTIONS = 60
CONNECTIONS_IN_ALL_TESTS = 12_000
MEMORY_BYTES_MAX = 256 * 1024 * 1024


@pytest.mark.parametrize(
    "number", [CONNECTIONS, pytest.param(examples(CONNECTIONS_IN_ALL_TESTS), marks=pytest.mark.slow)]
)
def test_a_server_survives_connections_that_resemble_valid_ones(start_server, chance, number):
    fuzzed = ServerUnderFuzz(start_server())
    for target in fuzzed.targets:
        for data in (*target.seeds, *islice(mutate_inputs(target, target.seeds, chance), number // 2)):
            target.check(data)
    fuzzed.check_health(MEMORY_BYTES_MAX)
