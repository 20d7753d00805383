"""Reading a state once, without asyncio."""

from typing import Any

from mainstem import limits
from mainstem.client.blocking.streams import Streams
from mainstem.client.core.protocol import BEGINNING
from mainstem.client.state.collection import Collection
from mainstem.client.state.reader import OnInvalid, StateReader
from mainstem.client.state.view import View


def load_state(
    streams: Streams,
    path: str,
    *collections: Collection[Any],
    offset: str = BEGINNING,
    on_invalid: OnInvalid | None = None,
    bytes_max: int = limits.CLIENT_STATE_BYTES_MAX,
) -> View:
    """Read a stream to its end, and return its rows: `load_state(streams, "team/1", users)[users]`.

    The arguments are those of `AsyncState`. Without `on_invalid`, an invalid message raises `InvalidMessage`.
    """
    view = View(*collections, bytes_max=bytes_max)
    reader = StateReader(path, view, on_invalid, start=offset)
    for batch in streams.read(path, offset):
        reader.apply(batch)
    return view
