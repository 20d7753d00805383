"""Python clients of a server: streams, exactly-once producers and, in `mainstem.client.sync`, sync.

Names are loaded when they are first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.client.blocking import Streams
    from mainstem.client.blocking_producers import IdempotentProducer
    from mainstem.client.errors import (
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
    )
    from mainstem.client.parcels import Failed
    from mainstem.client.producers import AsyncIdempotentProducer
    from mainstem.client.protocol import Response
    from mainstem.client.results import Appended, Batch, StreamInfo
    from mainstem.client.retries import Retries
    from mainstem.client.streams import AsyncStreams
    from mainstem.client.sync import SyncClient

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
    "OffsetGone",
    "OutcomeUnknown",
    "ProducerClosed",
    "ProducerGap",
    "RateLimited",
    "Response",
    "ResponseError",
    "Retries",
    "SequenceRegression",
    "ServerFailed",
    "StaleEpoch",
    "StreamClosed",
    "StreamExists",
    "StreamGone",
    "StreamInfo",
    "Streams",
    "SyncClient",
    "TailMoved",
    "TimedOut",
    "TooMuchData",
    "Unauthorized",
    "Unavailable",
]

_HOMES = {
    "Appended": "results",
    "AsyncIdempotentProducer": "producers",
    "AsyncStreams": "streams",
    "Batch": "results",
    "Failed": "parcels",
    "IdempotentProducer": "blocking_producers",
    "Response": "protocol",
    "Retries": "retries",
    "StreamInfo": "results",
    "Streams": "blocking",
    "SyncClient": "sync",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
