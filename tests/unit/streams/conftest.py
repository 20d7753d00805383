import pytest

from .book import Book


@pytest.fixture
def book():
    return Book()
