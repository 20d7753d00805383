import pytest
from ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()
