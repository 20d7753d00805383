"""The offline-first client: `OfflineClient`, its stores, its errors, and the changes that it reports."""

from mainstem.client.offline.changes import (
    Change,
    Changes,
    Drafted,
    EventsCommitted,
    Missed,
    Rejected,
    Reported,
    State,
    Status,
    StatusChanged,
)
from mainstem.client.offline.client import OfflineClient, SubmittedDraft
from mainstem.client.offline.core.errors import (
    ClientClosed,
    ConnectionLost,
    DraftRejected,
    HistoryBehind,
    HistoryMismatch,
    HistoryTruncated,
    IdInUse,
    InvalidDraft,
    NotFollowed,
    PartitionRefused,
    QueueFull,
    RejectionsFull,
    StoreFailed,
    StoreFull,
    StoreInUse,
    UnknownView,
    ViewFailed,
    WrongStore,
)
from mainstem.client.offline.core.records import Event, Rejection, Snapshot
from mainstem.client.offline.stores.contract import ClientStore
from mainstem.client.offline.stores.memory import MemoryClientStore
from mainstem.client.offline.stores.sqlite import SqliteClientStore
from mainstem.client.sync_protocol.errors import ProtocolFault, ServerRefused, SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault

__all__ = [
    "Change",
    "Changes",
    "ClientClosed",
    "ClientStore",
    "ConnectionLost",
    "DraftRejected",
    "Drafted",
    "Event",
    "EventsCommitted",
    "FieldFault",
    "HistoryBehind",
    "HistoryMismatch",
    "HistoryTruncated",
    "IdInUse",
    "InvalidDraft",
    "MemoryClientStore",
    "Missed",
    "NotFollowed",
    "OfflineClient",
    "PartitionRefused",
    "ProtocolFault",
    "QueueFull",
    "Rejected",
    "Rejection",
    "RejectionsFull",
    "Reported",
    "ServerRefused",
    "Snapshot",
    "SqliteClientStore",
    "State",
    "Status",
    "StatusChanged",
    "StoreFailed",
    "StoreFull",
    "StoreInUse",
    "SubmittedDraft",
    "SyncClientError",
    "UnknownView",
    "ViewFailed",
    "WrongStore",
]
