"""What can go wrong, as one tree: a stable code, the status if a server answered, and what to do about it.

`error_of` turns any reply that is no success into one of these. The code in the reply's problem document decides; a
server that sends none is understood by its status and headers.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from mainstem import limits
from mainstem.client.core.challenges import read_refusal


class ClientError(Exception):
    """Anything that this client raises on purpose. `retryable` says whether the same call may succeed later."""

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
        said = f"{self.detail} ({self.code})" if self.status is None else f"{self.detail} ({self.code}, {self.status})"
        return f"{said}. {self.hint}" if self.hint else said


class BadArgument(ClientError, ValueError):
    """A value that no server would take; nothing was sent."""

    code = "bad_argument"


class ConnectionFailed(ClientError):
    """The server could not be reached, or the connection broke, and the retries are used up."""

    code = "connection_failed"
    retryable = True
    hint = "Check that the server runs at this address, and call again."


class TimedOut(ConnectionFailed):
    code = "timed_out"
    hint = "The server was silent for longer than timeout_s: call again, or allow more."


class InvalidResponse(ClientError):
    """A reply that does not keep to the protocol: cut, corrupt, or not of such a server at all."""

    code = "invalid_response"
    retryable = True
    hint = "Nothing of it was used. Call again from the same offset; if it stays so, look at what is in between."


class TooMuchData(ClientError):
    """A reply is larger than this client takes into memory."""

    code = "too_much_data"
    hint = "Read batch by batch with read(), or allow more with bytes_max."


class OutcomeUnknown(ClientError):
    """A request was sent, and whether it was carried out cannot be told. `__cause__` is what came last."""

    code = "outcome_unknown"
    hint = "It was carried out once or not at all: read the end of the stream before you repeat it."


class ProducerClosed(ClientError):
    """This producer takes no more messages: it was closed, or it failed and `__cause__` says why."""

    code = "producer_closed"


# What a server answered


class ResponseError(ClientError):
    """The server said no. `facts` are the further members of its problem document, `headers` those of the reply."""

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
    hint = "The request itself is wrong, and would be again: change it."


class Unauthorized(ResponseError):
    code = "unauthorized"
    hint = "Give a valid token, as token= of the client; a callable can give a fresh one for each request."


class Forbidden(ResponseError):
    code = "forbidden"
    hint = "The token does not allow this: ask for one that does."


class StaleEpoch(ResponseError):
    code = "stale_epoch"
    hint = "Another instance took over this producer. Claim a higher epoch only if that is intended."

    @property
    def current_epoch(self) -> int | None:
        return self._number("producer-epoch", "current_epoch")


class NotFound(ResponseError):
    code = "not_found"
    hint = "Create it first, or check the path."


class StreamGone(NotFound):
    """The stream was deleted, perhaps while it was followed."""

    code = "stream_gone"
    hint = "The stream was deleted; its offsets are of no more use."


class OffsetGone(ResponseError):
    """Retention has removed what was at this offset."""

    code = "offset_gone"
    hint = "Go on from earliest_offset; what lay before it is no longer kept."

    @property
    def earliest_offset(self) -> str | None:
        value = self.headers.get("stream-earliest-offset", self.facts.get("earliest_offset"))
        return None if value is None else str(value)


class Conflict(ResponseError):
    code = "conflict"


class StreamExists(Conflict):
    code = "stream_exists"
    hint = "The stream exists with another configuration: use it as it is, or another path."


class StreamClosed(Conflict):
    code = "stream_closed"
    hint = "A closed stream takes no more data: use another one."


class ContentTypeMismatch(Conflict):
    code = "content_type_mismatch"
    hint = "Append with the stream's own content type; leave content_type out, and the client asks for it."


class SequenceRegression(Conflict):
    code = "sequence_regression"
    hint = "Somebody wrote a later seq: read what came, then append with a greater one."


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
    hint = "The stream has grown: read on to next_offset, decide again, and append with that offset."


class BodyTooLarge(ResponseError):
    code = "body_too_large"
    hint = "Append in smaller pieces."

    @property
    def limit_bytes(self) -> int | None:
        return self._number("", "limit_bytes")


class RateLimited(ResponseError):
    code = "rate_limited"
    retryable = True
    hint = "Send fewer requests, or ask the operator for a higher rate."


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
    # Only a server of streams sends a problem document, so only then does the status concern the stream.
    is_problem = headers.get("content-type", "").startswith("application/problem+json")
    said = SILENT_REPLIES.get(status) if is_problem else None
    return said or f"the server answered {status}"


def _guess_kind(status: int, headers: Mapping[str, str]) -> type[ResponseError]:
    """For replies without a code, as those to HEAD and those of other servers."""
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
    """What a conflict is about that has no code: other servers say it in words, if at all."""
    if "content type" in text.lower().replace("-", " "):
        return ContentTypeMismatch
    return SequenceRegression if seq_sent else Conflict


def _read_text(headers: Mapping[str, str], body: bytes) -> str:
    """What a reply says in plain words, as one line."""
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
        return {}  # the status says enough
    return facts if isinstance(facts, dict) else {}
