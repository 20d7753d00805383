from collections.abc import Callable, Iterator

import pytest

from tests.subscriptions.receivers import TAKEN, Call, Receiver, Reply
from tests.subscriptions.subscribers import Subscriber, WakeStream
from tests.support.server_threads import client, connect_to, hasty, path, server, start_thread

__all__ = ["client", "connect_to", "hasty", "path", "server", "start_thread"]


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    """Starts webhook receivers, and ends them with the test."""
    receivers: list[Receiver] = []

    def start(answer: Callable[[Call], Reply] = lambda call: TAKEN) -> Receiver:
        receivers.append(Receiver(answer))
        return receivers[-1]

    yield start
    for receiver in receivers:
        receiver.close()


@pytest.fixture
def wakes(client, path) -> WakeStream:
    return WakeStream(client, path + "/wakes")


@pytest.fixture
def subscriber(client, path) -> Subscriber:
    """A subscription that is not made yet, on the shared server, with an id that no other test uses."""
    return Subscriber(client, path.replace("/", "-"))
