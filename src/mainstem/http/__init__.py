"""HTTP without a protocol: ASGI types, parsing requests, and making responses."""
