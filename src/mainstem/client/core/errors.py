"""The errors of the streams client, as one tree. Each has a stable code, a status if a server answered, and a hint.

`error_of` turns any reply that is not a success into one of these. It goes by the code in the reply's problem document
or, if the server sends none, by the status and the headers.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from mainstem import limits
from mainstem.client.core.challenges import read_refusal


class ClientError(Exception):
    """The base class of this client's errors. `retryable` says whether the same call may succeed later."""

    code: str = "client_error"
    hint: str = ""
    status: int | None = None
    retryable: bool = False

    def __init__(self, detail: str, *, hint: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        text = f"{self.detail} ({self.code})" if self.status is None else f"{self.detail} ({self.code}, {self.status})"
        return f"{text}. {self.hint}" if self.hint else text


class BadArgument(ClientError, ValueError):
    """A value that no server would accept. Nothing was sent."""

    code = "bad_argument"


class ConnectionFailed(ClientError):
    """The server could not be reached, or the connection broke, and no retries are left."""

    code = "connection_failed"
    retryable = True
    hint = "Check that the server runs at this address, and call again."


class TimedOut(ConnectionFailed):
    """The server was silent for longer than `timeout_s`, or connecting took too long."""

    code = "timed_out"
    hint = "Check that the server runs at this address; call again, or pass a larger timeout_s."


class InvalidResponse(ClientError):
    """A reply that breaks the protocol: it was damaged on the way, or it is from another kind of server."""

    code = "invalid_response"
    retryable = True
    hint = "The client used no part of it. Call again; if it fails again, check the proxies in between."


class UnreadableMessage(ClientError):
    """A message is valid JSON, but Python cannot hold it: it has a number like 1e400, for example."""

    code = "unreadable_message"
    hint = "`raw_messages` has the messages exactly as they were appended."


class TooMuchData(ClientError):
    """A reply is larger than this client loads into memory."""

    code = "too_much_data"
    hint = "Read batch by batch with read(), or pass a larger bytes_max."


class OutcomeUnknown(ClientError):
    """A request was sent, and it is unknown whether the server carried it out. `__cause__` is the last error."""

    code = "outcome_unknown"
    hint = "It was carried out once or not at all: read the end of the stream before you call again."


def may_repeat(error: ClientError) -> bool:
    """Return whether to send a request again that does no harm if it arrives twice, such as an append of a producer."""
    return error.retryable or isinstance(error, OutcomeUnknown)


class ProducerClosed(ClientError):
    """This producer accepts no more messages: it was closed, or it failed, and `__cause__` says why."""

    code = "producer_closed"


# Replies of a server


class ResponseError(ClientError):
    """The server refused a request. `facts` holds the members of its problem document, `headers` those of the reply."""

    code = "request_failed"
    default_hint: ClassVar[str] = ""

    def __init__(
        self,
        detail: str,
        *,
        status: int,
        code: str | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail, hint=hint)
        self.status = status
        self.headers = headers or {}
        self.facts = facts or {}
        if code:
            self.code = code

    def say(self, detail: str, hint: str) -> None:
        """Replace the texts of this error."""
        self.args = (detail,)
        self.detail = detail
        self.hint = hint

    @property
    def next_offset(self) -> str | None:
        """Where the stream ends, if the reply says so."""
        return self.headers.get("stream-next-offset")

    def _number(self, header: str, fact: str) -> int | None:
        value = self.headers.get(header, self.facts.get(fact))
        try:
            return None if value is None else int(value)
        except (TypeError, ValueError):
            return None


class BadRequest(ResponseError):
    code = "bad_request"
    hint = "The request is invalid: correct it before you call again."


class Unauthorized(ResponseError):
    code = "unauthorized"
    hint = "Pass a valid token as token=; a callable can return a fresh one for each request."


class Forbidden(ResponseError):
    code = "forbidden"
    hint = "Use a token that allows this."


class StaleEpoch(ResponseError):
    code = "stale_epoch"
    hint = "Another instance has taken over this producer. Use a higher epoch only if you want to take over again."

    @property
    def current_epoch(self) -> int | None:
        return self._number("producer-epoch", "current_epoch")


class NotFound(ResponseError):
    code = "not_found"
    hint = "Create it first, or check the path."


class StreamGone(NotFound):
    """The stream was deleted, possibly while it was followed."""

    code = "stream_gone"
    hint = "The stream was deleted. Do not use its offsets for a stream that is created in its place."


class OffsetGone(ResponseError):
    """Retention or pruning has trimmed the data at this offset."""

    code = "offset_gone"
    hint = "Continue from earliest_offset; the data before it is gone."

    @property
    def earliest_offset(self) -> str | None:
        value = self.headers.get("stream-earliest-offset", self.facts.get("earliest_offset"))
        return None if value is None else str(value)


class Conflict(ResponseError):
    code = "conflict"


class StreamExists(Conflict):
    code = "stream_exists"
    hint = "The stream exists with another configuration: use it as it is, or use another path."


class StreamClosed(Conflict):
    code = "stream_closed"
    hint = "A closed stream accepts no more data: use another one."


class ContentTypeMismatch(Conflict):
    code = "content_type_mismatch"
    hint = "Append with the stream's content type. If you leave out content_type, the client asks the server for it."


class SequenceRegression(Conflict):
    code = "sequence_regression"
    hint = "Another writer used a greater seq: read what it wrote, and append with a greater one."


class ProducerGap(Conflict):
    code = "producer_gap"
    hint = "Send the expected sequence number first."

    @property
    def expected_seq(self) -> int | None:
        return self._number("producer-expected-seq", "expected_seq")

    @property
    def received_seq(self) -> int | None:
        return self._number("producer-received-seq", "received_seq")


class TailMoved(ResponseError):
    code = "tail_moved"
    hint = "The stream has grown: read up to next_offset, decide again, and append with that offset."


class BodyTooLarge(ResponseError):
    code = "body_too_large"
    hint = "Append in smaller pieces."

    @property
    def limit_bytes(self) -> int | None:
        return self._number("", "limit_bytes")


class RateLimited(ResponseError):
    code = "rate_limited"
    retryable = True
    hint = "Send fewer requests, or ask the operator for a higher limit."


class ServerFailed(ResponseError):
    code = "server_failed"
    retryable = True
    hint = "Call again later; the server's log has the reason."


class Unavailable(ServerFailed):
    code = "unavailable"
    hint = "Call again later."


BY_CODE: dict[str, type[ResponseError]] = {
    kind.code: kind
    for kind in (
        Unauthorized,
        Forbidden,
        StaleEpoch,
        StreamGone,
        OffsetGone,
        StreamExists,
        StreamClosed,
        ContentTypeMismatch,
        SequenceRegression,
        ProducerGap,
        TailMoved,
        BodyTooLarge,
        RateLimited,
    )
}
BY_STATUS: dict[int, type[ResponseError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: StreamGone,
    412: TailMoved,
    413: BodyTooLarge,
    429: RateLimited,
    503: Unavailable,
}
RETRYABLE_STATUSES = frozenset([408, 425, 429, 500, 502, 503, 504])


def error_of(
    call: str, status: int, headers: Mapping[str, str], body: bytes, *, seq_sent: bool = False
) -> ResponseError:
    """Return the error that a reply stands for.

    `call` names what the user asked for, such as `read chat/1`; `seq_sent` says whether the request had a Stream-Seq.
    """
    facts = _read_problem(headers, body)
    text = _read_text(headers, body)
    code = facts.get("code")
    kind = BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None:
        kind = _guess_kind(status, headers)
        if kind is Conflict and "code" not in facts:
            kind = _guess_conflict(text, seq_sent)
    detail = facts.get("detail") or facts.get("title") or text or _read_silent_reply(status, headers)
    hint = facts.get("hint")
    error = kind(
        f"{call}: {detail}",
        status=status,
        code=code if isinstance(code, str) else None,
        hint=hint if isinstance(hint, str) else None,
        headers=headers,
        facts=facts,
    )
    error.retryable = status in RETRYABLE_STATUSES or facts.get("retryable") is True
    return error


SILENT_REPLIES = {
    401: "the server requires a valid token",
    403: "the token does not allow this",
    404: "there is no such stream",
    410: "the stream was deleted",
}


def _read_silent_reply(status: int, headers: Mapping[str, str]) -> str:
    """Return what a reply without a body says, such as one to HEAD."""
    refusal = read_refusal(headers.get("www-authenticate", "")) if status in (401, 403) else ""
    if refusal:
        return refusal
    # Only a Durable Streams server sends a problem document, so only then does the status concern the stream.
    is_problem = headers.get("content-type", "").startswith("application/problem+json")
    said = SILENT_REPLIES.get(status) if is_problem else None
    return said or f"the server answered {status}"


def _guess_kind(status: int, headers: Mapping[str, str]) -> type[ResponseError]:
    """Return the kind of error of a reply without a code, such as a reply to HEAD or of another server."""
    if status == 409:
        if headers.get("stream-closed", "").lower() == "true":
            return StreamClosed
        if "producer-expected-seq" in headers:
            return ProducerGap
    if status == 403 and "producer-epoch" in headers:
        return StaleEpoch
    if status == 410 and "stream-earliest-offset" in headers:
        return OffsetGone
    if status in BY_STATUS:
        return BY_STATUS[status]
    if 400 <= status < 500:
        return BadRequest
    return ServerFailed if status >= 500 else ResponseError


def _guess_conflict(text: str, seq_sent: bool) -> type[ResponseError]:
    """Return the kind of a conflict without a code. Other servers describe it in text, if at all."""
    if "content type" in text.lower().replace("-", " "):
        return ContentTypeMismatch
    return SequenceRegression if seq_sent else Conflict


def _read_text(headers: Mapping[str, str], body: bytes) -> str:
    """Return the text of a plain-text reply on one line."""
    if not headers.get("content-type", "").lower().startswith("text/plain"):
        return ""
    text = body[: limits.CLIENT_ERROR_TEXT_BYTES_MAX].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _read_problem(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if "json" not in headers.get("content-type", "") or not body:
        return {}
    try:
        facts = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}  # the status has to be enough
    return facts if isinstance(facts, dict) else {}
