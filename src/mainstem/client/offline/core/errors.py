"""Errors of the offline client: each says what happened, what became of the data, and what to do."""

from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault


class InvalidDraft(SyncClientError, ValueError):
    """The draft could never be committed; nothing was stored or sent. `field` names the part that is wrong."""

    code = "invalid_draft"
    hint = "Nothing was stored. Mend the field that is named, and submit again."

    def __init__(self, detail: str, field: str) -> None:
        super().__init__(detail)
        self.field = field


class IdInUse(InvalidDraft):
    code = "id_in_use"
    hint = "Nothing was stored. Leave the id out, and a new one is made."


class DraftRejected(SyncClientError):
    """The server will not commit this draft. It has left the view and is kept in `rejections()` until dismissed."""

    code = "draft_rejected"
    hint = "Look at `errors`, tell the user, submit a mended event with a new id, and dismiss this one."

    def __init__(self, draft_id: str, reason: str, errors: tuple[FieldFault, ...]) -> None:
        said = "; ".join(f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in errors)
        super().__init__(f"the draft {draft_id} was rejected, {reason}{': ' if said else ''}{said}")
        self.id = draft_id
        self.reason = reason
        self.errors = errors


class QueueFull(SyncClientError):
    code = "draft_queue_full"
    retryable = True
    hint = "Nothing was stored. Wait until the client is live and the queue has drained (`await client.synced()`)."


class RejectionsFull(SyncClientError):
    code = "rejections_full"
    hint = "Nothing was stored. Read `rejections()` and `dismiss()` those that were dealt with."


class ClientClosed(SyncClientError):
    code = "client_closed"
    hint = "Drafts that are not committed yet are in the store, and are sent when a client opens it again."


class NotFollowed(SyncClientError, LookupError):
    code = "partition_not_followed"
    hint = "Add it first: await client.add_partition(name)."


class UnknownView(SyncClientError, LookupError):
    code = "unknown_view"
    hint = "Register it first: client.register_view(name, reducer, initial)."


class ViewFailed(SyncClientError):
    """A reducer raised, or gave a state that is not JSON. Events and drafts are not touched by that."""

    code = "view_failed"
    hint = "Mend the reducer and register the view with a higher version; it is then computed anew."


# The store


class StoreInUse(SyncClientError):
    code = "client_store_in_use"
    hint = "One store has one client: close the other one, or give this one a store of its own."


class WrongStore(SyncClientError):
    """The file is not a store, not of this client, or of a newer version."""

    code = "client_store_wrong"


class StoreFull(SyncClientError):
    code = "client_store_full"
    retryable = True
    hint = "Nothing was stored. Free space on that disk; the client then goes on by itself."


class StoreFailed(SyncClientError):
    code = "client_store_failed"
    hint = "Close the client, look at the disk, and open the store again. What was durable before is still there."


# The connection


class ConnectionLost(SyncClientError):
    code = "connection_lost"
    retryable = True
    hint = "The client connects again by itself; drafts are kept meanwhile."


class Silence(ConnectionLost):
    """No message came for too long."""

    code = "server_silent"
    hint = "The client connects again by itself, and asks for smaller pages."


class PartitionRefused(SyncClientError):
    """A partition that was added is not allowed; the client does not follow it, and goes on with the others."""

    code = "partition_refused"
    hint = "Ask for a token with this partition, then add it again."

    def __init__(self, partition: str, detail: str) -> None:
        super().__init__(f"the partition {partition!r} was refused: {detail}")
        self.partition = partition


class HistoryBehind(SyncClientError):
    """The server's log ends before what this client has seen: another log, or a node that lags behind another."""

    code = "history_behind"
    hint = "The client asks again; if the log stays so, it forgets its copy and gets everything anew. Drafts are kept."
    retryable = True


class HistoryMismatch(SyncClientError):
    """The server's log ends before what this client has seen, or tells it differently: it is another log."""

    code = "history_mismatch"
    hint = "The client forgets its copy and gets everything anew; drafts are kept. Check that the URL is the right one."
    retryable = True


class HistoryTruncated(SyncClientError):
    """The server has pruned a partition's beginning and has no snapshot of it: older events cannot be had any more."""

    code = "history_truncated"
    hint = "Views count what is left. Ask the operator for a snapshot before history is pruned."

    def __init__(self, partition: str) -> None:
        super().__init__(f"the beginning of {partition!r} is gone from the server")
        self.partition = partition
