"""Python clients for a server: streams, exactly-once producers and, in `mainstem.client.offline`, offline-first sync.

Each name is loaded when it is first used, so importing this package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.client.aio.producers import AsyncIdempotentProducer
    from mainstem.client.aio.streams import AsyncStreams
    from mainstem.client.blocking.producers import IdempotentProducer
    from mainstem.client.blocking.streams import Streams
    from mainstem.client.core.errors import (
        BadArgument,
        BadRequest,
        BodyTooLarge,
        ClientError,
        Conflict,
        ConnectionFailed,
        ContentTypeMismatch,
        Forbidden,
        InvalidResponse,
        NotFound,
        OffsetGone,
        OutcomeUnknown,
        ProducerClosed,
        ProducerGap,
        RateLimited,
        ResponseError,
        SequenceRegression,
        ServerFailed,
        StaleEpoch,
        StreamClosed,
        StreamExists,
        StreamGone,
        TailMoved,
        TimedOut,
        TooMuchData,
        Unauthorized,
        Unavailable,
        UnreadableMessage,
    )
    from mainstem.client.core.producer_batches import Failed
    from mainstem.client.core.protocol import Response
    from mainstem.client.core.results import Appended, Batch, StreamInfo
    from mainstem.client.core.retries import Retries, Retry
    from mainstem.client.offline import OfflineClient

__all__ = [
    "Appended",
    "AsyncIdempotentProducer",
    "AsyncStreams",
    "BadArgument",
    "BadRequest",
    "Batch",
    "BodyTooLarge",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "ContentTypeMismatch",
    "Failed",
    "Forbidden",
    "IdempotentProducer",
    "InvalidResponse",
    "NotFound",
    "OfflineClient",
    "OffsetGone",
    "OutcomeUnknown",
    "ProducerClosed",
    "ProducerGap",
    "RateLimited",
    "Response",
    "ResponseError",
    "Retries",
    "Retry",
    "SequenceRegression",
    "ServerFailed",
    "StaleEpoch",
    "StreamClosed",
    "StreamExists",
    "StreamGone",
    "StreamInfo",
    "Streams",
    "TailMoved",
    "TimedOut",
    "TooMuchData",
    "Unauthorized",
    "Unavailable",
    "UnreadableMessage",
]

_MODULES = {
    "Appended": "core.results",
    "AsyncIdempotentProducer": "aio.producers",
    "AsyncStreams": "aio.streams",
    "Batch": "core.results",
    "Failed": "core.producer_batches",
    "IdempotentProducer": "blocking.producers",
    "Response": "core.protocol",
    "Retries": "core.retries",
    "Retry": "core.retries",
    "StreamInfo": "core.results",
    "Streams": "blocking.streams",
    "OfflineClient": "offline",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'core.errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
