"""Types of the ASGI interface and of headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = dict[bytes, bytes]
"""The headers of a request by lower-case name."""
HeaderList = list[tuple[bytes, bytes]]
"""The headers of a response."""
