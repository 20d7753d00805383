from collections.abc import Iterator

import pytest

from tests.ai.running import ChatApp, running_chat_app


@pytest.fixture(scope="module")
def chat_app() -> Iterator[ChatApp]:
    """The chat app in a process of its own."""
    with running_chat_app() as app:
        yield app
