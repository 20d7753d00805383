"""What a session asks its owner to do."""

import msgspec

from mainstem.client.offline.core.records import StoreUpdate
from mainstem.client.sync_protocol.errors import SyncClientError


class Send(msgspec.Struct, frozen=True):
    text: bytes


class Save(msgspec.Struct, frozen=True):
    update: StoreUpdate


class Load(msgspec.Struct, frozen=True):
    """Call `offer` with the first drafts of the store: so many, or one if that is larger than the bytes."""

    items_max: int
    bytes_max: int


class Pause(msgspec.Struct, frozen=True):
    """Call `resume` after so long."""

    seconds: float


class Report(msgspec.Struct, frozen=True):
    """Something that the application should hear of, and that does not end the session."""

    error: SyncClientError


Effect = Send | Save | Load | Pause | Report
Effects = list[Effect]
