"""The HTTP/1.1 edge of `mainstem serve`.

Bytes become requests, and replies become bytes, in layers that each know one thing:

    heads, bodies   what a request's bytes mean (pure)
    states          what may happen next on a connection: two tables (pure)
    machine         both together: bytes in, events out, one request at a time (pure)
    request_cycle   one request and its reply; how a reply is framed
    connection      the `asyncio.Protocol`: moves bytes, pauses, deadlines
    asgi            runs an ASGI app for a request
    websocket       runs an ASGI app for a WebSocket
    memory          what all connections together may hold
    listeners       sockets to listen on
    server          accepts, and stops in an orderly way

The edge knows nothing of streams. An app may offer handlers of its own for some requests (`FastPath`), which answer
without a task; everything else goes through ASGI.
"""
