"""The requests that start runs in chats: what front ends send, and how much of it."""

import hashlib
from typing import Any
from weakref import finalize

import msgspec
from starlette.requests import Request

from mainstem import limits
from mainstem.ai.errors import RequestTooLarge, TooManyRuns
from mainstem.client.core.errors import BadArgument
from mainstem.json_errors import explain_json_error
from mainstem.streams.rules.json_mode import JSON

SUBMIT = "submit-message"


class ChatRequest(msgspec.Struct, weakref=True):
    """A message to a chat."""

    id: str
    """The id of the chat."""
    messages: list[dict[str, Any]]
    """The messages of the chat, as the front end has them."""
    trigger: str
    """"submit-message" or "regenerate-message"."""
    message_id: str | None
    """The id of the message to answer: the one that the front end names, or else the last one."""
    body: dict[str, Any]
    """Everything that the front end sent."""
    request: Request
    tag: str = ""
    """Tells the question from others with the same message, such as an edited one. Empty if it names no message."""

    @property
    def text(self) -> str:
        """The text of the last message."""
        return message_text(self.messages[-1]) if self.messages else ""


class _Memory:
    """What the requests take whose answers are being written, in the whole process."""

    def __init__(self) -> None:
        self.total = 0

    def hold(self, chat: ChatRequest, size: int) -> None:
        self.total += size
        finalize(chat, self._release, size)

    def _release(self, size: int) -> None:
        self.total -= size


_memory = _Memory()


async def read_chat(request: Request, chat_id: str | None = None) -> ChatRequest:
    """Return the message of a request. Raises `BadArgument` if it is none."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise BadArgument("the request must have the content type application/json")
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > limits.RUN_REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"the request is larger than {limits.RUN_REQUEST_BYTES_MAX} bytes")
    memory_bytes = len(content) + limits.RUN_REQUEST_VALUE_BYTES * sum(map(content.count, b",[{"))
    if memory_bytes > limits.RUN_REQUEST_MEMORY_BYTES_MAX:
        raise RequestTooLarge("the request has too many values")
    if _memory.total + memory_bytes > limits.RUN_REQUESTS_MEMORY_BYTES_MAX:
        raise TooManyRuns("the messages of the answers that are being written take too much memory")
    try:
        body = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as reason:
        raise BadArgument(explain_json_error(reason, "the request")) from None
    if not isinstance(body, dict):
        raise BadArgument("the request must be a JSON object")
    messages = body.get("messages", [])
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadArgument("`messages` must be a list of objects")
    message_id = body.get("messageId") or (messages[-1].get("id") if messages else None)
    trigger = check_id(body.get("trigger") or SUBMIT, "`trigger`")
    chat = ChatRequest(
        id=check_id(chat_id or body.get("id"), "`id`, the id of the chat,"),
        messages=messages,
        trigger=trigger,
        message_id=check_id(message_id, "the id of the message") if message_id else None,
        body=body,
        request=request,
        tag=make_tag(trigger, message_id, messages) if message_id else "",
    )
    _memory.hold(chat, memory_bytes)
    return chat


def check_id(found: Any, what: str) -> str:
    """Return what a request has as an id. Raises `BadArgument` unless it is one that the registry can keep."""
    if not isinstance(found, str) or not found.isprintable() or not 0 < len(found.encode()) <= limits.CHAT_ID_BYTES_MAX:
        raise BadArgument(f"{what} must be printable text of 1 to {limits.CHAT_ID_BYTES_MAX} bytes")
    return found


def make_tag(trigger: str, message_id: str, messages: list[dict[str, Any]]) -> str:
    return hashlib.sha256(msgspec.json.encode([trigger, message_id, messages])).hexdigest()


def is_from_another_site(request: Request) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None or origin is None:
        return site == "cross-site"
    # Browsers do not send Sec-Fetch-Site to plain HTTP. A proxy that ends TLS may hide the scheme, but not the host.
    return origin.partition("://")[2].lower() != request.headers.get("host", "").lower()


def message_text(message: dict[str, Any]) -> str:
    """Return the text of a message of the AI SDK, of TanStack AI, or with plain `content`."""
    parts = message.get("parts")
    if not isinstance(parts, list):
        content = message.get("content")
        return content if isinstance(content, str) else ""
    texts = (part.get("text", part.get("content", "")) for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))
