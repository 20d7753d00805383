"""The effects that a session returns and its owner performs."""

import msgspec

from mainstem.client.offline.core.records import StoreUpdate
from mainstem.client.sync_protocol.errors import SyncClientError


class Send(msgspec.Struct, frozen=True):
    text: bytes


class Save(msgspec.Struct, frozen=True):
    update: StoreUpdate


class Load(msgspec.Struct, frozen=True):
    """Call `offer` with the first drafts of the store, within these limits; at least one if there is any."""

    items_max: int
    bytes_max: int


class Pause(msgspec.Struct, frozen=True):
    """Call `resume` after this time."""

    seconds: float


class Report(msgspec.Struct, frozen=True):
    """Report an error to the application. It does not end the session."""

    error: SyncClientError


Effect = Send | Save | Load | Pause | Report
Effects = list[Effect]
