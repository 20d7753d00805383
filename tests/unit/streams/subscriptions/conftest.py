import pytest

from tests.support.ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()
