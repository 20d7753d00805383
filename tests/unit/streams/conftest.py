import pytest

from tests.support.book import Book


@pytest.fixture
def book():
    return Book()
