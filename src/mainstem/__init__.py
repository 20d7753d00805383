"""Mainstem: one global, ordered, durable commit log, served as Durable Streams over HTTP and events over WebSocket.

These are the names that most programs need; `mainstem.client`, `mainstem.client.offline`, `mainstem.server` and
`mainstem.pipeline` have the others. They are loaded on first use, so importing `mainstem` itself is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.client import (
        AsyncIdempotentProducer,
        AsyncStreams,
        ClientError,
        IdempotentProducer,
        OfflineClient,
        Streams,
    )
    from mainstem.errors import MainstemError
    from mainstem.server import Settings, create_app
    from mainstem.signed_urls import sign_url

__version__ = "0.1.0"

__all__ = [
    "AsyncIdempotentProducer",
    "AsyncStreams",
    "ClientError",
    "IdempotentProducer",
    "MainstemError",
    "OfflineClient",
    "Settings",
    "Streams",
    "__version__",
    "create_app",
    "sign_url",
]

_MODULES = {
    "AsyncIdempotentProducer": "client",
    "AsyncStreams": "client",
    "ClientError": "client",
    "IdempotentProducer": "client",
    "MainstemError": "errors",
    "OfflineClient": "client",
    "Settings": "server",
    "Streams": "client",
    "create_app": "server",
    "sign_url": "signed_urls",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
