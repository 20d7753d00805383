import pytest

from tests.support.histories import Story


@pytest.fixture
def story() -> Story:
    """An empty stream `s`."""
    story = Story()
    story.create()
    return story
