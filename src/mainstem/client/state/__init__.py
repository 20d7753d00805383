"""The State Protocol: rows of typed collections, kept as changes in a JSON stream and materialised by every reader."""

from mainstem.client.state.async_state import AsyncState
from mainstem.client.state.collection import Collection
from mainstem.client.state.errors import (
    IncompleteSnapshot,
    InvalidMessage,
    StateClosed,
    StateFailed,
    StateTimedOut,
    StateTooLarge,
)
from mainstem.client.state.loading import load_state
from mainstem.client.state.messages import Change, Control, Malformed, parse_message
from mainstem.client.state.snapshot import Snapshot
from mainstem.client.state.subscription import Missed, StateChange, StateChanges
from mainstem.client.state.view import RowChanged, Rows, View

__all__ = [
    "AsyncState",
    "Change",
    "Collection",
    "Control",
    "IncompleteSnapshot",
    "InvalidMessage",
    "Malformed",
    "Missed",
    "RowChanged",
    "Rows",
    "Snapshot",
    "StateChange",
    "StateChanges",
    "StateClosed",
    "StateFailed",
    "StateTimedOut",
    "StateTooLarge",
    "View",
    "load_state",
    "parse_message",
]
