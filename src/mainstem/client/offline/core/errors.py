"""Errors of the offline client. Each says what happened, what became of the data, and what to do."""

from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault


class InvalidDraft(SyncClientError, ValueError):
    """No server would commit this draft. Nothing was stored or sent. `field` names the part that is wrong."""

    code = "invalid_draft"
    hint = "Nothing was stored. Correct the event and submit it again."

    def __init__(self, detail: str, field: str) -> None:
        super().__init__(detail)
        self.field = field


class IdInUse(InvalidDraft):
    """The id belongs to a draft or a committed event with other content."""

    code = "id_in_use"
    hint = "Nothing was stored. Leave out the id, and the client makes a new one."


class DraftRejected(SyncClientError):
    """The server refused this draft. It is no longer part of the views; `rejections()` has it until it is dismissed."""

    code = "draft_rejected"
    hint = "Submit a corrected event or dismiss the rejection. The id is free unless it is already committed."

    def __init__(self, draft_id: str, reason: str, errors: tuple[FieldFault, ...]) -> None:
        said = "; ".join(f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in errors)
        super().__init__(f"the server rejected the draft {draft_id} ({reason}){': ' if said else ''}{said}")
        self.id = draft_id
        self.reason = reason
        self.errors = errors


class QueueFull(SyncClientError):
    code = "draft_queue_full"
    retryable = True
    hint = "Nothing was stored. Connect, and wait until the drafts are committed: `await client.synced()`."


class RejectionsFull(SyncClientError):
    code = "rejections_full"
    hint = "Nothing was stored. Read `rejections()`, and `dismiss()` those that you have dealt with."


class ClientClosed(SyncClientError):
    code = "client_closed"
    hint = "Drafts that are not committed stay in the store; the next client that opens it sends them."


class NotFollowed(SyncClientError, LookupError):
    code = "partition_not_followed"
    hint = "Add it first: await client.add_partition(name)."


class UnknownView(SyncClientError, LookupError):
    code = "unknown_view"
    hint = "Register it first: client.register_view(name, reducer, initial)."


class ViewFailed(SyncClientError):
    """A reducer raised an exception, or its state is not JSON or too large. Events and drafts are intact."""

    code = "view_failed"
    hint = "Correct the reducer, and register the view with a higher version to compute it from scratch."


# The store


class StoreInUse(SyncClientError):
    code = "client_store_in_use"
    hint = "A store has one client at a time: close the other one, or use another file."


class WrongStore(SyncClientError):
    """The file is not a store, belongs to another client, or has a newer version."""

    code = "client_store_wrong"


class StoreFull(SyncClientError):
    code = "client_store_full"
    retryable = True
    hint = "Nothing was stored. Free space on the disk; the client then continues automatically."


class StoreFailed(SyncClientError):
    code = "client_store_failed"
    hint = "Close the client, check the disk, and open the store again. What was durable before is intact."


# The connection


class ConnectionLost(SyncClientError):
    code = "connection_lost"
    retryable = True
    hint = "The client reconnects automatically and keeps the drafts until then."


class NotASyncEndpoint(SyncClientError):
    """A server answered at the URL, but not as a sync endpoint. The client keeps trying."""

    code = "not_a_sync_endpoint"
    hint = "Check the URL: the endpoint of a server is ws://host:port/v1/sync, or wss:// with TLS."


class Silence(ConnectionLost):
    """The server was silent for too long."""

    code = "server_silent"
    hint = "The client reconnects automatically, and requests smaller pages."


class PartitionRefused(SyncClientError):
    """The token does not allow a partition that was added. The client does not follow it; the others continue."""

    code = "partition_refused"
    hint = "Get a token that allows this partition, and add it again."

    def __init__(self, partition: str, detail: str) -> None:
        super().__init__(f"the server refused the partition {partition!r}: {detail}")
        self.partition = partition


class HistoryBehind(SyncClientError):
    """The server's log ends before what this client has seen: it is another log, or the node lags behind."""

    code = "history_behind"
    hint = "The client tries again. If the log stays too short, the client fetches it from scratch. Drafts are kept."
    retryable = True


class HistoryMismatch(SyncClientError):
    """The server's log is not the one that this client has seen: it stays too short, or contradicts the local copy."""

    code = "history_mismatch"
    hint = "The client discards its copy and fetches the log from scratch; drafts are kept. Check the URL."
    retryable = True


class HistoryTruncated(SyncClientError):
    """The server has pruned the beginning of a partition and has no snapshot of it: the older events are gone."""

    code = "history_truncated"
    hint = "Views cover the remaining events. Have the operator write a snapshot before pruning."

    def __init__(self, partition: str) -> None:
        super().__init__(f"the server has pruned the beginning of {partition!r}")
        self.partition = partition
