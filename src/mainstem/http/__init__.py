"""HTTP independent of our protocols: ASGI types, parsing requests, and building responses."""
